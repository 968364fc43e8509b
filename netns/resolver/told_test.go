package resolver

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

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
