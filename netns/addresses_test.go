package netns

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestWatchAddressesTellsOfTheNodesOwn(t *testing.T) {
	hosttest.Netns(t, func() {
		m, _, err := Open(Options{Instance: "0a0a"})
		check(t, err)
		defer m.Close()
		done, changed := make(chan struct{}), make(chan struct{}, 16)
		defer close(done)
		check(t, m.WatchAddresses(done, func() { changed <- struct{}{} }))

		lo, err := netlink.LinkByName("lo")
		check(t, err)
		for _, c := range []struct {
			addr string
			told bool
		}{{"10.77.3.4/32", true}, {"198.19.4.4/32", false}, {"fd77::1/128", true}} {
			a, err := netlink.ParseAddr(c.addr)
			check(t, err)
			check(t, netlink.AddrAdd(lo, a))
			select {
			case <-changed:
				if !c.told {
					t.Errorf("%s is a jail's, and was told", c.addr)
				}
			case <-time.After(300 * time.Millisecond):
				if c.told {
					t.Errorf("%s was not told", c.addr)
				}
			}
		}
		got, err := m.NodePrefixes()
		check(t, err)
		if !slices.Contains(got, netip.MustParsePrefix("10.77.3.4/32")) {
			t.Errorf("%v", got)
		}
	})
}
