package resolver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

func TestAllowedNamesAreForwardedAndPinned(t *testing.T) {
	w := newWorld(t, map[string][]string{
		"api.example.com. A":    {"60 IN A 203.0.113.10", "60 IN A 203.0.113.11"},
		"api.example.com. AAAA": {"60 IN AAAA 2001:db8::10"},
	}, rules(t, "API.Example.com:443", "api.example.com:8000-8100/udp"))
	m := w.ask("aPi.exAMple.com.", dns.TypeA)
	if got := addresses(m); !slices.Equal(got, []string{"203.0.113.10", "203.0.113.11"}) {
		t.Errorf("%v: %s", got, m)
	}
	if m.Answer[0].Header().Name != "aPi.exAMple.com." {
		t.Errorf("the answer is for %s, not as the job spelled it", m.Answer[0].Header().Name)
	}
	if got := addresses(w.ask("api.example.com.", dns.TypeAAAA)); !slices.Equal(got, []string{"2001:db8::10"}) {
		t.Error(got)
	}
	ports := []bpf.Ports{{Low: 443, High: 443, Protocols: bpf.TCP | bpf.UDP}, {Low: 8000, High: 8100, Protocols: bpf.UDP}}
	want := map[string][]bpf.Ports{"203.0.113.10": ports, "203.0.113.11": ports, "2001:db8::10": ports}
	if diff := cmp.Diff(want, byText(w.kernel.pinned())); diff != "" {
		t.Errorf("pins (-want +got):\n%s", diff)
	}
	if r := w.refusals(); len(r) != 0 {
		t.Errorf("refused: %+v", r)
	}
	if got := w.jail.Names(netip.MustParseAddr("203.0.113.10")); !slices.Equal(got, []string{"api.example.com"}) {
		t.Error(got)
	}
}

func byText(pins map[netip.Addr][]bpf.Ports) map[string][]bpf.Ports {
	out := map[string][]bpf.Ports{}
	for a, p := range pins {
		out[a.String()] = p
	}
	return out
}

func TestOtherNamesNeverLeave(t *testing.T) {
	records := map[string][]string{}
	names := []string{
		"evil.test.", "example.com.", "files.example.com.", "evilapi.example.com.", "api.example.com.evil.test.",
		"bad.files.example.com.", `a\.b.files.example.com.`, `nul\000.files.example.com.`, ".", "*.files.example.com.",
	}
	for _, n := range names {
		records[n+" A"] = []string{"60 IN A 203.0.113.66"}
	}
	r := rules(t, "api.example.com:443", "*.files.example.com:443")
	r.Deny = parse(t, []string{"bad.files.example.com"})
	w := newWorld(t, records, r)
	for _, name := range names {
		for _, network := range []string{"udp", "tcp"} {
			for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeNULL, dns.TypeANY, dns.TypeHTTPS} {
				m := w.exchange(network, name, qtype)
				if m.Rcode != dns.RcodeNameError || len(m.Answer)+len(m.Ns) != 0 {
					t.Errorf("%s %s: %s", network, name, m)
				}
				e := extended(m)
				if e == nil || e.InfoCode != dns.ExtendedErrorCodeBlocked || !strings.Contains(e.ExtraText, "Do not retry") {
					t.Errorf("%s: %v", name, e)
				}
			}
		}
	}
	if asked := w.zone.questions(); len(asked) != 0 {
		t.Errorf("the upstream was asked %q", asked)
	}
	got := w.refusals()
	if !slices.ContainsFunc(got, func(r Refusal) bool {
		return r.Name == "evil.test" && r.Type == "A" && r.Rule == RuleName && r.Count == 1
	}) {
		t.Errorf("no refusal names evil.test: %+v", got)
	}
	if !slices.ContainsFunc(got, func(r Refusal) bool { return r.Name == "bad.files.example.com" && r.Rule == RuleDeny }) {
		t.Errorf("no refusal by the deny rule: %+v", got)
	}
	if len(w.kernel.pinned()) != 0 {
		t.Errorf("pinned: %v", w.kernel.pinned())
	}
}

func TestRefusalsThatAreTold(t *testing.T) {
	w := newWorld(t, nil, rules(t, "api.example.com"))
	w.jail.pace.SetBurst(10_000)
	for i := range maxTold + 50 {
		w.exchange("udp", fmt.Sprintf("n%d.evil.test.", i), dns.TypeA)
	}
	names := map[string]int64{}
	for _, r := range w.refusals() {
		names[r.Name] += r.Count
	}
	if len(names) != maxTold+1 || names[""] != 50 {
		t.Errorf("%d names are told and %d refusals summed up, want %d and 50", len(names)-1, names[""], maxTold)
	}
}

func TestRefusalsOfOneAttemptAreOne(t *testing.T) {
	r := rules(t, "api.example.com")
	r.Deny = parse(t, []string{"bad.test"})
	w := newWorld(t, nil, r, func(_ *Options, j *JailOptions) { j.Search = []string{"ns.svc.local.", "corp.test"} })
	for _, name := range []string{
		"evil.test.ns.svc.local.", "evil.test.Corp.test.", "evil.test.", // many dots are asked for
		"late.test.", "late.test.ns.svc.local.", "late.test.corp.test.", // few
		"bad.test.corp.test.", "bad.test.",
		"api.example.com.ns.svc.local.", "api.example.com.corp.test.", // it exists, but has no such address
		"a.db.corp.test.", "db.corp.test.",
	} {
		w.exchange("udp", name, dns.TypeAAAA)
		w.exchange("udp", name, dns.TypeA)
	}
	got := func() map[string]int64 {
		sum := map[string]int64{}
		for _, r := range w.refusals() {
			sum[r.Rule+" "+r.Name+" "+r.Type] += r.Count
		}
		return sum
	}
	want := map[string]int64{
		"network.dns evil.test A": 6, "network.dns late.test A": 6, "network.deny bad.test A": 4, "network.dns db.corp.test A": 2,
	}
	if diff := cmp.Diff(want, got()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.jail.Flush()
	want["network.dns a.db.corp.test A"] = 2
	if diff := cmp.Diff(want, got()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

func TestLargeAnswers(t *testing.T) {
	var forty, long []string
	for i := range 40 {
		forty = append(forty, fmt.Sprintf("60 IN A 203.0.113.%d", i+100))
	}
	for i := range 20 {
		long = append(long, fmt.Sprintf("60 IN TXT %q", strings.Repeat("x", 200)+fmt.Sprint(i)))
	}
	w := newWorld(t, map[string][]string{"forty.test. A": forty, "long.test. TXT": long}, rules(t, "forty.test:80", "long.test:80"))
	if got := addresses(w.ask("forty.test.", dns.TypeA)); len(got) != 40 {
		t.Errorf("%d addresses, want 40", len(got))
	}
	if n := len(w.kernel.pinned()); n != 40 {
		t.Errorf("%d pins, want 40", n)
	}
	if m := w.exchange("udp", "long.test.", dns.TypeTXT); !m.Truncated || m.Len() > udpSize {
		t.Errorf("4 KB over UDP: truncated %v, %d bytes", m.Truncated, m.Len())
	}
	if m := w.exchange("tcp", "long.test.", dns.TypeTXT); len(m.Answer) != 20 || m.Truncated {
		t.Errorf("4 KB over TCP: %d records", len(m.Answer))
	}
	if asked := w.zone.questions(); !slices.Contains(asked, "tcp long.test. TXT") {
		t.Errorf("the upstream was not asked over TCP: %q", asked)
	}
	// A program that does not speak EDNS gets 512 bytes.
	q := new(dns.Msg)
	q.SetQuestion("forty.test.", dns.TypeA)
	m, err := dns.Exchange(q, w.addr)
	m.Compress = true // as it came
	if err != nil || !m.Truncated || m.Len() > dns.MinMsgSize || m.IsEdns0() != nil {
		t.Errorf("without EDNS: %v %v", err, m)
	}
}

func TestAliases(t *testing.T) {
	w := newWorld(t, map[string][]string{
		"api.test. CNAME":       {"300 IN CNAME edge.cdn.test."},
		"edge.cdn.test. CNAME":  {"300 IN CNAME node7.cdn.test."},
		"node7.cdn.test. A":     {"5 IN A 203.0.113.70"},
		"six.test. AAAA":        {"60 IN AAAA 2001:db8::6"},
		"loop.test. CNAME":      {"60 IN CNAME loop2.test."},
		"loop2.test. CNAME":     {"60 IN CNAME loop.test."},
		"unrelated.test. A":     {"60 IN A 203.0.113.99"},
		"dangling.test. CNAME":  {"60 IN CNAME nowhere.test."},
		"mixed.test. A":         {"60 IN A 203.0.113.71"},
		"*.wild.test. A":        {"60 IN A 203.0.113.99"},
		"elsewhere.cdn.test. A": {"60 IN A 203.0.113.99"},
	}, rules(t, "api.test:443", "six.test:443", "loop.test:443", "dangling.test:443", "mixed.test:443"))
	w.zone.answerBy(func(rw dns.ResponseWriter, q *dns.Msg) bool {
		if strings.EqualFold(q.Question[0].Name, "mixed.test.") {
			m := new(dns.Msg)
			m.SetReply(q)
			for _, text := range []string{"mixed.test. 60 IN A 203.0.113.71", "unrelated.test. 60 IN A 203.0.113.99"} {
				rr, _ := dns.NewRR(text)
				m.Answer = append(m.Answer, rr)
				m.Extra = append(m.Extra, rr)
				m.Ns = append(m.Ns, rr)
			}
			rw.WriteMsg(m)
			return true
		}
		return false
	})
	m := w.ask("api.test.", dns.TypeA)
	if len(m.Answer) != 3 || !slices.Equal(addresses(m), []string{"203.0.113.70"}) {
		t.Errorf("chain: %s", m)
	}
	if got := w.jail.Names(netip.MustParseAddr("203.0.113.70")); !slices.Equal(got, []string{"api.test"}) {
		t.Errorf("the address counts for %q, want the asked name", got)
	}
	if m := w.ask("node7.cdn.test.", dns.TypeA); m.Rcode != dns.RcodeNameError || len(m.Answer) != 0 {
		t.Errorf("a link asked for by itself: %s", m)
	}
	if m := w.ask("six.test.", dns.TypeA); m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 {
		t.Errorf("A of a name with AAAA only: %s", m)
	}
	if got := addresses(w.ask("six.test.", dns.TypeAAAA)); !slices.Equal(got, []string{"2001:db8::6"}) {
		t.Error(got)
	}
	if m := w.ask("loop.test.", dns.TypeA); len(addresses(m)) != 0 {
		t.Errorf("loop: %s", m)
	}
	if m := w.ask("dangling.test.", dns.TypeA); len(addresses(m)) != 0 {
		t.Errorf("dangling: %s", m)
	}
	if m := w.ask("mixed.test.", dns.TypeA); len(m.Answer) != 1 || len(m.Ns) != 0 || len(m.Extra) != 1 {
		t.Errorf("records of another name were passed on: %s", m)
	}
	if pins := byText(w.kernel.pinned()); len(pins) != 3 || pins["203.0.113.99"] != nil {
		t.Errorf("pins: %v", pins)
	}
	for _, asked := range w.zone.questions() {
		if strings.Contains(asked, "cdn.test") {
			t.Errorf("a link was asked for: %s", asked)
		}
	}
}

func TestRebinding(t *testing.T) {
	internal := []string{
		"10.1.2.3", "172.16.0.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "198.19.255.254",
		"224.0.0.1", "255.255.255.255", "203.0.113.2",
	}
	internal6 := []string{"::1", "::", "fe80::1", "fd00:ec2::254", "fd74:6f6c:6c62::1", "64:ff9b::a9fe:a9fe", "::ffff:10.1.2.3", "ff02::1"}
	records := map[string][]string{"mixed.test. A": {"0 IN A 203.0.113.10", "0 IN A 10.9.9.9"}, "db.test. A": {"60 IN A 10.5.0.5"}}
	for i, a := range internal {
		records[fmt.Sprintf("a%d.test. A", i)] = []string{"0 IN A " + a}
	}
	for i, a := range internal6 {
		records[fmt.Sprintf("b%d.test. AAAA", i)] = []string{"0 IN AAAA " + a}
	}
	open := netip.MustParsePrefix("10.5.0.0/16")
	w := newWorld(t, records, rules(t, "*.test:443"), func(_ *Options, j *JailOptions) { j.OpenByAddress = open.Contains })
	check := func(name string, qtype uint16, addr string) {
		m := w.ask(name, qtype)
		if m.Rcode != dns.RcodeNameError || len(m.Answer) != 0 || extended(m) == nil {
			t.Errorf("%s: %s", addr, m)
		}
		refused := w.refusals()
		last := refused[len(refused)-1]
		if last.Rule != RuleRebinding || len(last.Addrs) != 1 {
			t.Errorf("%s: %+v", addr, last)
		}
	}
	for i, a := range internal {
		check(fmt.Sprintf("a%d.test.", i), dns.TypeA, a)
	}
	for i, a := range internal6 {
		check(fmt.Sprintf("b%d.test.", i), dns.TypeAAAA, a)
	}
	if m := w.ask("mixed.test.", dns.TypeA); !slices.Equal(addresses(m), []string{"203.0.113.10"}) {
		t.Errorf("mixed: %s", m)
	}
	if m := w.ask("db.test.", dns.TypeA); !slices.Equal(addresses(m), []string{"10.5.0.5"}) {
		t.Errorf("an internal address that a rule by address opens: %s", m)
	}
	if pins := byText(w.kernel.pinned()); len(pins) != 1 || pins["203.0.113.10"] == nil {
		t.Errorf("pins: %v", pins)
	}
}

func TestUpstreamsThatFail(t *testing.T) {
	dead := deadPort(t)
	w := newWorld(t, map[string][]string{"api.test. A": {"60 IN A 203.0.113.10"}}, rules(t, "api.test:443"), func(o *Options, _ *JailOptions) {
		o.Upstreams = append([]netip.AddrPort{dead}, o.Upstreams...)
	})
	if got := addresses(w.ask("api.test.", dns.TypeA)); len(got) != 1 {
		t.Errorf("the second upstream was not asked: %v", got)
	}
	silent, _ := net.ListenPacket("udp4", "127.0.0.1:0")
	defer silent.Close()
	for what, addrs := range map[string][]netip.AddrPort{
		"dead": {dead}, "silent": {netip.MustParseAddrPort(silent.LocalAddr().String())}, "none": nil,
	} {
		w := newWorld(t, nil, rules(t, "api.test:443"), func(o *Options, _ *JailOptions) {
			o.Upstreams, o.Attempt, o.Limit = addrs, 100*time.Millisecond, 300*time.Millisecond
		})
		m := w.ask("api.test.", dns.TypeA)
		if e := extended(m); m.Rcode != dns.RcodeServerFailure || e == nil || e.InfoCode != dns.ExtendedErrorCodeNoReachableAuthority {
			t.Errorf("%s: %s", what, m)
		}
	}
}

func deadPort(t *testing.T) netip.AddrPort {
	t.Helper()
	udp, tcp := sockets(t)
	defer udp.Close()
	defer tcp.Close()
	return netip.MustParseAddrPort(udp.LocalAddr().String())
}

func TestForgedAnswersArePassedOver(t *testing.T) {
	var spelledDown atomic.Bool
	w := newWorld(t, map[string][]string{"api.test. A": {"60 IN A 203.0.113.10"}}, rules(t, "api.test:443"))
	w.zone.answerBy(func(rw dns.ResponseWriter, q *dns.Msg) bool {
		if rw.LocalAddr().Network() == "tcp" {
			return false
		}
		forge := func(change func(m *dns.Msg)) {
			m := new(dns.Msg)
			m.SetReply(q)
			rr, _ := dns.NewRR("api.test. 60 IN A 203.0.113.66")
			m.Answer = []dns.RR{rr}
			change(m)
			rw.WriteMsg(m)
		}
		forge(func(m *dns.Msg) { m.Id++ })
		forge(func(m *dns.Msg) { m.Response = false })
		forge(func(m *dns.Msg) { m.Question[0].Name = "other.test." })
		forge(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA })
		rw.Write([]byte("not a message"))
		if spelledDown.Load() {
			forge(func(m *dns.Msg) { m.Question[0].Name = strings.ToLower(m.Question[0].Name) })
			return true
		}
		return false
	})
	if got := addresses(w.ask("api.test.", dns.TypeA)); !slices.Equal(got, []string{"203.0.113.10"}) {
		t.Errorf("%v, want the true answer", got)
	}
	// An answer that does not know the spelling is not taken; TCP settles it.
	spelledDown.Store(true)
	if got := addresses(w.ask("api.test.", dns.TypeA)); !slices.Equal(got, []string{"203.0.113.10"}) {
		t.Errorf("%v, want the answer over TCP", got)
	}
}

func TestTypesThatCarryMoreThanTheName(t *testing.T) {
	w := newWorld(t, map[string][]string{
		"api.test. HTTPS": {"60 IN HTTPS 1 other.test. ipv4hint=203.0.113.66"}, "api.test. TXT": {"60 IN TXT hello"}, "api.test. A": {"60 IN A 203.0.113.10"},
	}, rules(t, "api.test:443"))
	for qtype, rcode := range map[uint16]int{
		dns.TypeHTTPS: dns.RcodeSuccess, dns.TypeSVCB: dns.RcodeSuccess, dns.TypeANY: dns.RcodeNotImplemented, dns.TypeIXFR: dns.RcodeNotImplemented,
	} {
		if m := w.ask("api.test.", qtype); m.Rcode != rcode || len(m.Answer) != 0 {
			t.Errorf("%s: %s", dns.TypeToString[qtype], m)
		}
	}
	if asked := w.zone.questions(); len(asked) != 0 {
		t.Errorf("the upstream was asked %q", asked)
	}
	if m := w.ask("api.test.", dns.TypeTXT); len(m.Answer) != 1 {
		t.Errorf("TXT: %s", m)
	}
	if len(w.kernel.pinned()) != 0 || len(w.refusals()) != 0 {
		t.Errorf("pins %v, refusals %v", w.kernel.pinned(), w.refusals())
	}
}

func TestMessagesThatAskNothing(t *testing.T) {
	w := newWorld(t, map[string][]string{"api.test. A": {"60 IN A 203.0.113.10"}}, rules(t, "api.test:443"))
	send := func(change func(q *dns.Msg)) *dns.Msg {
		t.Helper()
		q := new(dns.Msg)
		q.SetQuestion("api.test.", dns.TypeA)
		change(q)
		m, _, err := (&dns.Client{Timeout: 10 * time.Second}).Exchange(q, w.addr)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for what, c := range map[string]struct {
		change func(q *dns.Msg)
		rcode  int
	}{
		"an update":   {func(q *dns.Msg) { q.Opcode = dns.OpcodeUpdate }, dns.RcodeNotImplemented},
		"a notify":    {func(q *dns.Msg) { q.Opcode = dns.OpcodeNotify }, dns.RcodeNotImplemented},
		"two":         {func(q *dns.Msg) { q.Question = append(q.Question, q.Question[0]) }, dns.RcodeFormatError},
		"class CHAOS": {func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeNameError},
		"EDNS 1":      {func(q *dns.Msg) { q.SetEdns0(1232, false); q.IsEdns0().SetVersion(1) }, dns.RcodeBadVers},
		"an ordinary": {func(*dns.Msg) {}, dns.RcodeSuccess},
		"with a cookie": {func(q *dns.Msg) {
			q.SetEdns0(4096, true)
			q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0011223344556677"})
		}, dns.RcodeSuccess},
	} {
		if m := send(c.change); m.Rcode != c.rcode {
			t.Errorf("%s: %s, want %s", what, dns.RcodeToString[m.Rcode], dns.RcodeToString[c.rcode])
		}
	}
	c, err := net.Dial("udp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, junk := range []string{"", "x", strings.Repeat("\xff", 600), strings.Repeat("\x00", 12)} {
		c.Write([]byte(junk))
	}
	if got := addresses(w.ask("api.test.", dns.TypeA)); len(got) != 1 {
		t.Errorf("after junk: %v", got)
	}
}

func TestBudgets(t *testing.T) {
	records := map[string][]string{}
	for i := range 20 {
		records[fmt.Sprintf("n%d.test. A", i)] = []string{fmt.Sprintf("60 IN A 203.0.113.%d", 100+i)}
	}
	for _, c := range []struct {
		rule   string
		budget Budget
		allow  string
		works  int
	}{
		{RuleNames, Budget{Queries: 100, Names: 5, Addresses: 100}, "*.test:443", 5},
		{RuleQueries, Budget{Queries: 7, Names: 100, Addresses: 100}, "*.test:443", 7},
		{RulePins, Budget{Queries: 100, Names: 100, Addresses: 3}, "*.test:443", 3},
	} {
		w := newWorld(t, records, rules(t, c.allow), func(_ *Options, j *JailOptions) { j.Budget = c.budget })
		works := 0
		for i := range 20 {
			if m := w.ask(fmt.Sprintf("n%d.test.", i), dns.TypeA); m.Rcode == dns.RcodeSuccess {
				works++
			} else if e := extended(m); m.Rcode != dns.RcodeNameError || e == nil || !strings.Contains(e.ExtraText, "used up") {
				t.Errorf("%s: %s", c.rule, m)
			}
		}
		refused := w.refusals()
		if works != c.works || len(refused) != 20-c.works || refused[0].Rule != c.rule || refused[0].Limit == 0 {
			t.Errorf("%s: %d work, want %d; refused %+v", c.rule, works, c.works, refused)
		}
	}
	// Names that rules name in full cannot be made up, so they are not counted.
	w := newWorld(t, records, rules(t, "n0.test:443", "n1.test:443", "n2.test:443"), func(_ *Options, j *JailOptions) {
		j.Budget = Budget{Queries: 100, Names: 1, Addresses: 100}
	})
	for i := range 3 {
		if m := w.ask(fmt.Sprintf("n%d.test.", i), dns.TypeA); m.Rcode != dns.RcodeSuccess {
			t.Errorf("n%d: %s", i, m)
		}
	}
}

func TestOpenAndNone(t *testing.T) {
	records := map[string][]string{"any.test. A": {"60 IN A 203.0.113.10"}, "bad.test. A": {"60 IN A 203.0.113.11"}}
	w := newWorld(t, records, Rules{Open: true, Deny: parse(t, []string{"bad.test:25"})})
	if got := addresses(w.ask("any.test.", dns.TypeA)); len(got) != 1 || len(w.kernel.pinned()) != 0 {
		t.Errorf("%v, pins %v", got, w.kernel.pinned())
	}
	if m := w.ask("bad.test.", dns.TypeA); m.Rcode != dns.RcodeNameError || w.refusals()[0].Rule != RuleDeny {
		t.Errorf("%s", m)
	}
	w = newWorld(t, records, Rules{None: true})
	if m := w.ask("any.test.", dns.TypeA); m.Rcode != dns.RcodeNameError || w.refusals()[0].Rule != RuleNone || len(w.zone.questions()) != 0 {
		t.Errorf("%s", m)
	}
	if got := addresses(w.ask("localhost.", dns.TypeA)); !slices.Equal(got, []string{"127.0.0.1"}) {
		t.Errorf("localhost: %v", got)
	}
}

func TestAnAnswerThatCannotBePinnedIsNone(t *testing.T) {
	w := newWorld(t, map[string][]string{"api.test. A": {"60 IN A 203.0.113.10"}}, rules(t, "api.test:443"))
	w.kernel.failBy(errors.New("full"))
	if m := w.ask("api.test.", dns.TypeA); m.Rcode != dns.RcodeServerFailure || len(m.Answer) != 0 {
		t.Errorf("%s", m)
	}
	w.kernel.failBy(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) != 1 {
		t.Errorf("faults: %v", w.faults)
	}
}
