package netns

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// MinRate is the smallest rate that SetRate takes, in bits per second: below it one packet takes seconds.
const MinRate = 64_000

const (
	burstTime  = 0.01    // seconds of traffic that may go at once after a pause
	leastBurst = 16_384  // bytes: a few packets, so that slow rates still let whole ones through
	queued     = 256_000 // bytes that wait; the kernel throws away what comes beyond
)

// SetRate bounds what the link carries, in bits per second in each direction; 0 takes the bound away. The jail has no power
// over its own end.
func (m *Manager) SetRate(ns *Namespace, l *Link, bits int64) error {
	if bits != 0 && bits < MinRate {
		return fmt.Errorf("set rate of %s: %d bit/s is less than %d", l.Name, bits, MinRate)
	}
	eth0, err := ns.route.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("set rate of %s: find eth0: %w", l.Name, err)
	}
	for _, e := range []struct {
		route *netlink.Handle
		index int
	}{{m.route, l.Ifindex}, {ns.route, eth0.Attrs().Index}} {
		if err := setRate(e.route, e.index, bits); err != nil {
			return fmt.Errorf("set rate of %s: %w", l.Name, err)
		}
	}
	return nil
}

func setRate(route *netlink.Handle, index int, bits int64) error {
	attrs := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	if bits == 0 {
		if err := route.QdiscDel(&netlink.Tbf{QdiscAttrs: attrs}); err != nil {
			return fmt.Errorf("remove token bucket: %w", err)
		}
		return nil
	}
	rate := uint64(bits / 8)
	burst := uint32(max(leastBurst, float64(rate)*burstTime))
	tbf := &netlink.Tbf{QdiscAttrs: attrs, Rate: rate, Limit: max(queued, 2*burst), Buffer: netlink.Xmittime(rate, burst)}
	if err := route.QdiscReplace(tbf); err != nil {
		return fmt.Errorf("add token bucket: %w", err)
	}
	return nil
}
