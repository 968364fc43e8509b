package agent

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/netns/resolver"
)

func TestRefusedNamesAreWorded(t *testing.T) {
	n, err := testRules(nil).network(api.Network{
		Mode: "allow", Allow: []string{"*.example.com:443", "10.0.0.1:80"}, Deny: []string{"10.0.0.2", "bad.example.com", "*.worse.example.com:1-9"},
	}, "syd")
	if err != nil {
		t.Fatal(err)
	}
	none, err := testRules(nil).network(api.Network{}, "syd")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		network network
		refusal resolver.Refusal
		what    string
		fix     string
	}{
		{none, resolver.Refusal{Name: "evil.test", Type: "A", Rule: resolver.RuleNone, Count: 2}, "resolve evil.test (A)",
			`{"network":{"allow":["evil.test:443"],"mode":"allow"}}`},
		{n, resolver.Refusal{Name: "evil.test", Type: "AAAA", Rule: resolver.RuleName, Count: 1}, "resolve evil.test (AAAA)",
			`{"network":{"allow":["*.example.com:443","10.0.0.1:80","evil.test:443"],"mode":"allow"}}`},
		{n, resolver.Refusal{Name: `a\.b.test`, Type: "A", Rule: resolver.RuleName, Count: 1}, `resolve a\.b.test (A)`, "null"},
		{n, resolver.Refusal{Name: "bad.example.com", Type: "A", Rule: resolver.RuleDeny, Count: 1}, "resolve bad.example.com (A)",
			`{"network":{"deny":["10.0.0.2","*.worse.example.com:1-9"]}}`},
		{n, resolver.Refusal{Name: "a.test", Type: "A", Rule: resolver.RuleDeny, Count: 1}, "resolve a.test (A)", "null"},
		{n, resolver.Refusal{Name: "a.example.com", Type: "A", Rule: resolver.RuleQueries, Count: 1, Limit: 7}, "resolve a.example.com (A)", "null"},
		{n, resolver.Refusal{Rule: resolver.RuleName, Count: 9}, "resolve further names", "null"},
	} {
		d := (&wire{nets: &nets{}, network: c.network}).wordName(c.refusal)
		if d.What != c.what || string(d.Fix) != c.fix || d.Layer != "dns" || d.Rule != c.refusal.Rule || d.Count != c.refusal.Count || d.Why == "" {
			t.Errorf("%+v: %s; fix %s", c.refusal, d.What, d.Fix)
		}
	}
}

func TestParseUpstreams(t *testing.T) {
	got, err := parseUpstreams([]string{"10.0.0.1", "10.0.0.1:5353", "fd00::1", "[fd00::1]:5353", "fe80::1%eth0"})
	var want []netip.AddrPort
	for _, s := range []string{"10.0.0.1:53", "10.0.0.1:5353", "[fd00::1]:53", "[fd00::1]:5353", "[fe80::1%eth0]:53"} {
		want = append(want, netip.MustParseAddrPort(s))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
	for _, s := range []string{"", "dns.example.com", "10.0.0.1:0", "10.0.0.1:x", "[fd00::1]"} {
		if _, err := parseUpstreams([]string{s}); err == nil || !strings.Contains(err.Error(), "is not an address") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestResolversOfTheNodeChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	n := &nodeResolvers{path: path}
	expect := func(want ...string) {
		t.Helper()
		n.at = n.at.Add(-2 * resolversHold)
		var got []string
		for _, a := range n.upstreams() {
			got = append(got, a.Addr().String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nameserver 10.0.0.1\n")
	expect("10.0.0.1")
	write("nameserver 10.0.0.2\nnameserver 10.0.0.3\n")
	if got := n.upstreams(); len(got) != 1 {
		t.Errorf("read again at once: %v", got)
	}
	expect("10.0.0.2", "10.0.0.3")
	write("nameserver half a li")
	expect("10.0.0.2", "10.0.0.3")
	n.named = []netip.AddrPort{netip.MustParseAddrPort("10.9.9.9:53")}
	write("nameserver 10.0.0.1\n")
	expect("10.9.9.9")
}
