package resolver

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

func TestPinsLast(t *testing.T) {
	w := newWorld(t, map[string][]string{
		"short.test. A":  {"1 IN A 203.0.113.10"},
		"long.test. A":   {"100 IN A 203.0.113.11"},
		"longer.test. A": {"4000000 IN A 203.0.113.12"},
		"busy.test. A":   {"1 IN A 203.0.113.13"},
	}, rules(t, "*.test:443"))
	for _, name := range []string{"short.test.", "long.test.", "longer.test.", "busy.test."} {
		w.ask(name, dns.TypeA)
	}
	if ttl := w.ask("longer.test.", dns.TypeA).Answer[0].Header().Ttl; ttl != maxTTL {
		t.Errorf("the job is told a TTL of %d s, and its pin lasts %d", ttl, maxTTL)
	}
	start := time.Now()
	w.kernel.mu.Lock()
	w.kernel.busy[netip.MustParseAddr("203.0.113.13")] = true
	w.kernel.mu.Unlock()
	for _, c := range []struct {
		after time.Duration
		left  []string
	}{
		{20 * time.Second, []string{"203.0.113.10", "203.0.113.11", "203.0.113.12", "203.0.113.13"}},
		{31 * time.Second, []string{"203.0.113.11", "203.0.113.12", "203.0.113.13"}},
		{101 * time.Second, []string{"203.0.113.12", "203.0.113.13"}},
		{25 * time.Hour, []string{"203.0.113.13"}}, // no answer is believed for longer than a day
	} {
		w.jail.expire(start.Add(c.after))
		if got := w.left(); !slices.Equal(got, c.left) {
			t.Errorf("after %s: %v, want %v", c.after, got, c.left)
		}
	}
	lapse, ok := w.jail.Lapsed(netip.MustParseAddr("203.0.113.10"))
	if !ok || lapse.Name != "short.test" {
		t.Errorf("%+v, %v", lapse, ok)
	}
	if lapse, ok := w.jail.Lapsed(netip.MustParseAddr("203.0.113.13")); ok {
		t.Errorf("an address in use has lapsed: %+v", lapse)
	}
	w.kernel.mu.Lock()
	w.kernel.busy = nil
	w.kernel.mu.Unlock()
	w.jail.expire(start.Add(25 * time.Hour))
	if got := w.left(); len(got) != 0 {
		t.Errorf("no longer in use: %v", got)
	}
}

func (w *world) left() []string {
	var out []string
	for a := range w.kernel.pinned() {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return out
}

func TestNamesThatShareAnAddress(t *testing.T) {
	w := newWorld(t, map[string][]string{"a.test. A": {"1 IN A 203.0.113.10"}, "b.test. A": {"100 IN A 203.0.113.10"}},
		Rules{Allow: parse(t, []string{"a.test:443/tcp", "b.test:80/tcp"}), Deny: parse(t, []string{"b.test:443"})})
	w.ask("a.test.", dns.TypeA)
	w.ask("b.test.", dns.TypeA)
	one := func(port uint16) bpf.Ports { return bpf.Ports{Low: port, High: port, Protocols: bpf.TCP} }
	check := func(want ...bpf.Ports) {
		t.Helper()
		if diff := cmp.Diff(map[string][]bpf.Ports{"203.0.113.10": want}, byText(w.kernel.pinned())); diff != "" {
			t.Errorf("pins (-want +got):\n%s", diff)
		}
	}
	check(one(80), one(443))
	w.jail.expire(time.Now().Add(40 * time.Second))
	check(one(80))
}

func TestAShorterAnswerTakesNothingAway(t *testing.T) {
	w := newWorld(t, map[string][]string{"a.test. A": {"1000 IN A 203.0.113.10"}}, rules(t, "a.test:443"))
	w.ask("a.test.", dns.TypeA)
	w.zone.answerBy(func(rw dns.ResponseWriter, q *dns.Msg) bool {
		m := new(dns.Msg)
		m.SetReply(q)
		rr, _ := dns.NewRR("a.test. 1 IN A 203.0.113.10")
		m.Answer = []dns.RR{rr}
		rw.WriteMsg(m)
		return true
	})
	w.ask("a.test.", dns.TypeA)
	w.jail.expire(time.Now().Add(500 * time.Second))
	if got := w.left(); len(got) != 1 {
		t.Errorf("the first answer still holds, but the pins are %v", got)
	}
}

func TestNewRulesHoldAtOnce(t *testing.T) {
	w := newWorld(t, map[string][]string{"a.test. A": {"100 IN A 203.0.113.10"}, "b.test. A": {"100 IN A 203.0.113.11"}}, rules(t, "a.test:443", "b.test:443"))
	w.ask("a.test.", dns.TypeA)
	w.ask("b.test.", dns.TypeA)
	w.kernel.mu.Lock()
	w.kernel.busy[netip.MustParseAddr("203.0.113.11")] = true
	w.kernel.mu.Unlock()
	if err := w.jail.SetRules(rules(t, "a.test:80/tcp")); err != nil {
		t.Fatal(err)
	}
	want := map[string][]bpf.Ports{"203.0.113.10": {{Low: 80, High: 80, Protocols: bpf.TCP}}}
	if diff := cmp.Diff(want, byText(w.kernel.pinned())); diff != "" {
		t.Errorf("pins (-want +got):\n%s", diff)
	}
	for port, want := range map[uint16]bool{80: true, 443: false} {
		if got := w.jail.Allows(netip.MustParseAddr("203.0.113.10"), port, bpf.TCP); got != want {
			t.Errorf("port %d: %v", port, got)
		}
	}
	if m := w.ask("b.test.", dns.TypeA); m.Rcode != dns.RcodeNameError {
		t.Errorf("%s", m)
	}
}

func TestARuleThatChangesDuringALookup(t *testing.T) {
	w := newWorld(t, map[string][]string{"a.test. A": {"100 IN A 203.0.113.10"}}, rules(t, "a.test:443"))
	w.zone.answerBy(func(dns.ResponseWriter, *dns.Msg) bool {
		if err := w.jail.SetRules(Rules{}); err != nil {
			t.Error(err)
		}
		return false
	})
	if m := w.ask("a.test.", dns.TypeA); m.Rcode != dns.RcodeNameError || len(w.kernel.pinned()) != 0 {
		t.Errorf("%s, pins %v", m, w.kernel.pinned())
	}
}
