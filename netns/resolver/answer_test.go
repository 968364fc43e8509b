package resolver

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

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
	if asked := w.zone.questions(); !slices.Equal(asked, []string{"udp forty.test. A"}) {
		t.Errorf("40 addresses fit a datagram, but the upstream was asked %q", asked)
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
		"mapped.test. AAAA":     {"60 IN AAAA ::ffff:203.0.113.72"},
		"loop.test. CNAME":      {"60 IN CNAME loop2.test."},
		"loop2.test. CNAME":     {"60 IN CNAME loop.test."},
		"unrelated.test. A":     {"60 IN A 203.0.113.99"},
		"dangling.test. CNAME":  {"60 IN CNAME nowhere.test."},
		"mixed.test. A":         {"60 IN A 203.0.113.71"},
		"*.wild.test. A":        {"60 IN A 203.0.113.99"},
		"elsewhere.cdn.test. A": {"60 IN A 203.0.113.99"},
	}, rules(t, "api.test:443", "six.test:443", "mapped.test:443", "loop.test:443", "dangling.test:443", "mixed.test:443"))
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
	if got := addresses(w.ask("mapped.test.", dns.TypeAAAA)); len(got) != 1 || w.kernel.pinned()[netip.MustParseAddr("203.0.113.72")] == nil {
		t.Errorf("IPv4 in an IPv6 record: %v, pins %v", got, w.kernel.pinned())
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
	if pins := byText(w.kernel.pinned()); len(pins) != 4 || pins["203.0.113.99"] != nil {
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
