package resolver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
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
