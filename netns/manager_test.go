package netns

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func open(t testing.TB, o Options) *Manager {
	t.Helper()
	m, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, m.Close()) })
	return m
}

// unguarded stands for a guard where nothing is sent.
func unguarded(*Link) error { return nil }

// gone waits until a manager has no device left.
func gone(t testing.TB, m *Manager) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := must(m.Leftovers())(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d veths left: %v", len(left), left)
		}
	}
}

func TestOpenRefusesBadOptions(t *testing.T) {
	hosttest.Netns(t, func() {
		for _, o := range []Options{
			{}, {Instance: "12345"}, {Instance: "ABCD"}, {Instance: "12-4"},
			{Instance: "7e57", Pool4: netip.MustParsePrefix("10.0.0.0/17")},
			{Instance: "7e57", Pool4: netip.MustParsePrefix("10.0.0.1/16")},
			{Instance: "7e57", Pool6: netip.MustParsePrefix("fd00::/96")},
			{Instance: "7e57", Pool6: netip.MustParsePrefix("10.0.0.0/16")},
		} {
			if _, _, err := Open(o); err == nil {
				t.Errorf("%+v: accepted", o)
			}
		}
	})
}

func TestForwardingIsReportedNotChanged(t *testing.T) {
	hosttest.Netns(t, func() {
		write := func(path, value string) { check(t, os.WriteFile(path, []byte(value), 0)) }
		write(forward4, "0")
		write(forward6, "0")
		m, problems, err := Open(Options{Instance: "7e57"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if len(problems) != 2 || problems[0].What == "" || problems[0].Why == "" || problems[0].Fix == "" {
			t.Errorf("problems %+v, want one for each family", problems)
		}
		for _, path := range []string{forward4, forward6} {
			if got := string(must(os.ReadFile(path))(t)); got != "0\n" {
				t.Errorf("%s was changed to %q", path, got)
			}
		}
		again, problems, err := Open(Options{Instance: "7e58", SetForwarding: true})
		if err != nil || len(problems) != 0 {
			t.Fatalf("with SetForwarding: %+v, %v", problems, err)
		}
		defer again.Close()
	})
}

func TestForeignDropPolicyIsReported(t *testing.T) {
	hosttest.Netns(t, func() {
		c := must(nftables.New())(t)
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "filter"})
		drop := nftables.ChainPolicyDrop
		c.AddChain(&nftables.Chain{
			Name: "FORWARD", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward,
			Priority: nftables.ChainPriorityFilter, Policy: &drop,
		})
		check(t, c.Flush())
		m, problems, err := Open(Options{Instance: "7e57", SetForwarding: true})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if len(problems) != 1 || !strings.Contains(problems[0].Why, "FORWARD") {
			t.Errorf("problems %+v, want one that names the chain", problems)
		}
	})
}

func TestCloseRemovesTheTable(t *testing.T) {
	hosttest.Netns(t, func() {
		c := must(nftables.New())(t)
		for range 2 { // the second Open replaces what a killed agent left
			m, _, err := Open(Options{Instance: "7e57"})
			if err != nil {
				t.Fatal(err)
			}
			chains := must(c.ListChains())(t)
			if len(chains) != 3 {
				t.Errorf("%d chains, want 3", len(chains))
			}
			defer m.Close()
		}
		m, _, err := Open(Options{Instance: "7e57"})
		if err != nil {
			t.Fatal(err)
		}
		check(t, m.Close())
		if tables := must(c.ListTables())(t); len(tables) != 0 {
			t.Errorf("tables left: %d", len(tables))
		}
	})
}

func TestHundredConnectsLeaveNothing(t *testing.T) {
	hosttest.Netns(t, func() {
		m := open(t, Options{Instance: "7e57"})
		addrs := map[netip.Addr]bool{}
		for range 100 {
			ns := must(New())(t)
			link := must(m.Connect(ns, unguarded))(t)
			if addrs[link.Addr4] || addrs[link.Addr6] {
				t.Errorf("address %s or %s was used before", link.Addr4, link.Addr6)
			}
			addrs[link.Addr4], addrs[link.Addr6] = true, true
			check(t, ns.Close())
		}
		gone(t, m)
		routes := must(whole(func() ([]netlink.Route, error) { return m.route.RouteList(nil, netlink.FAMILY_V4) }))(t)
		if len(routes) != 0 {
			t.Errorf("%d routes left", len(routes))
		}
	})
}

func TestConnectPassesOverWhatIsTaken(t *testing.T) {
	hosttest.Netns(t, func() {
		a := open(t, Options{Instance: "7e57"})
		b := open(t, Options{Instance: "7e58"})
		taken := map[netip.Addr]bool{}
		for _, m := range []*Manager{a, b, a} {
			m.next = 10 // the same names again for a, the same addresses for b
			for range 3 {
				ns := must(New())(t)
				defer ns.Close()
				link := must(m.Connect(ns, unguarded))(t)
				if taken[link.Addr4] {
					t.Errorf("%s got the address %s of another link", link.Name, link.Addr4)
				}
				taken[link.Addr4] = true
			}
		}
		a.next = maxIndex
		for _, want := range []uint16{maxIndex, 1} {
			if got := a.nextIndex(); got != want {
				t.Errorf("index %d, want %d", got, want)
			}
		}
	})
}

func TestFailedGuardLeavesNoLink(t *testing.T) {
	hosttest.Netns(t, func() {
		m := open(t, Options{Instance: "7e57"})
		ns := must(New())(t)
		defer ns.Close()
		boom := errors.New("boom")
		_, err := m.Connect(ns, func(l *Link) error {
			link, err := m.route.LinkByName(l.Name)
			if err != nil || link.Attrs().Flags&1 != 0 || link.Attrs().Index != l.Ifindex {
				t.Errorf("guard saw %v (%v), want the node's end, down", link, err)
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Errorf("error %v, want the guard's", err)
		}
		if left := must(m.Leftovers())(t); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		if _, err := m.Connect(ns, nil); err == nil {
			t.Error("a link without a guard was made")
		}
	})
}

func TestSweep(t *testing.T) {
	hosttest.Netns(t, func() {
		m := open(t, Options{Instance: "7e57"})
		other := open(t, Options{Instance: "7e58"})
		connect := func(m *Manager) *Link {
			ns := must(New())(t)
			t.Cleanup(func() { ns.Close() })
			return must(m.Connect(ns, unguarded))(t)
		}
		first, second, foreign := connect(m), connect(m), connect(other)
		next := open(t, Options{Instance: "7e57"})
		check(t, next.Sweep(first.Name))
		if left := must(next.Leftovers())(t); !slices.Equal(left, []string{first.Name}) {
			t.Errorf("left %v, want %s kept and %s gone", left, first.Name, second.Name)
		}
		check(t, next.Sweep())
		if left := must(next.Leftovers())(t); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		if left := must(other.Leftovers())(t); !slices.Equal(left, []string{foreign.Name}) {
			t.Errorf("another instance's veth: %v, want %s", left, foreign.Name)
		}
	})
}

func TestNodePrefixes(t *testing.T) {
	hosttest.Netns(t, func() {
		m := open(t, Options{Instance: "7e57"})
		ns := must(New())(t)
		defer ns.Close()
		must(m.Connect(ns, unguarded))(t)
		got := must(m.NodePrefixes())(t)
		for _, want := range []string{"127.0.0.1/32", "::1/128", "198.19.255.254/32", "fd74:6f6c:6c62::ffff:fffe/128"} {
			if !slices.Contains(got, netip.MustParsePrefix(want)) {
				t.Errorf("%v lacks %s", got, want)
			}
		}
	})
}

func BenchmarkConnect(b *testing.B) {
	hosttest.Netns(b, func() {
		m := open(b, Options{Instance: "7e57"})
		for b.Loop() {
			b.StopTimer()
			ns := must(New())(b)
			b.StartTimer()
			must(m.Connect(ns, unguarded))(b)
			b.StopTimer()
			check(b, ns.Close())
			b.StartTimer()
		}
		gone(b, m)
	})
}
