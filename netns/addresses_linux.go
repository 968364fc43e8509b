package netns

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// WatchAddresses calls changed after an address of the node came or went, until done is closed. The jails' own links do not
// count. It returns once it listens, so that whoever asks for NodePrefixes after it misses nothing.
func (m *Manager) WatchAddresses(done <-chan struct{}, changed func()) error {
	updates := make(chan netlink.AddrUpdate, 64)
	lost := func(error) { changed() } // the kernel dropped notifications: something changed
	err := m.inNode(func() error {
		return netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{ErrorCallback: lost})
	})
	if err != nil {
		return fmt.Errorf("listen for address changes: %w", err)
	}
	go func() {
		for u := range updates {
			if a, ok := netip.AddrFromSlice(u.LinkAddress.IP); ok && m.plan.holds(a.Unmap()) {
				continue
			}
			changed()
		}
	}()
	return nil
}

// holds tells whether an address is a jail's or a gateway's.
func (p plan) holds(a netip.Addr) bool { return p.pool4.Contains(a) || p.pool6.Contains(a) }
