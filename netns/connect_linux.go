package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Link is a jail's veth pair.
type Link struct {
	Name    string // of the node's end
	Ifindex int    // of the node's end
	Addr4   netip.Addr
	Addr6   netip.Addr
	JailMAC net.HardwareAddr
	NodeMAC net.HardwareAddr
	index   uint16
}

// attempts bounds how many indexes Connect tries: each failure means that the index is taken, by a veth that is still being
// torn down or by another agent.
const attempts = 1024

// Connect puts a veth pair into the namespace. guard is called when the pair exists but is down, and must attach whatever
// judges its packets; the pair comes up only when guard has succeeded. To disconnect, close the namespace.
func (m *Manager) Connect(ns *Namespace, guard func(*Link) error) (*Link, error) {
	if guard == nil {
		return nil, errors.New("connect jail: a link without a guard would be open")
	}
	for range attempts {
		link, err := m.connect(ns, m.nextIndex(), guard)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("connect jail: %w", err)
		}
		return link, nil
	}
	return nil, fmt.Errorf("connect jail: no free index in %d attempts", attempts)
}

// nextIndex goes round the whole range before it offers an index again.
func (m *Manager) nextIndex() uint16 {
	m.mu.Lock()
	defer m.mu.Unlock()
	index := m.next
	m.next++
	if m.next > maxIndex {
		m.next = 1
	}
	return index
}

func (m *Manager) connect(ns *Namespace, index uint16, guard func(*Link) error) (*Link, error) {
	link := &Link{
		Name:  fmt.Sprintf("%s%04x", m.prefix(), index),
		Addr4: m.plan.jail4(index), Addr6: m.plan.jail6(index),
		JailMAC: jailMAC(index), NodeMAC: nodeMAC(index),
		index: index,
	}
	pair := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: link.Name, HardwareAddr: link.NodeMAC, Group: m.group, MTU: m.mtu, TxQLen: 1000},
		PeerName:         "eth0",
		PeerHardwareAddr: link.JailMAC,
		PeerNamespace:    netlink.NsFd(ns.file.Fd()),
		PeerMTU:          uint32(m.mtu),
	}
	if err := m.route.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("add veth %s: %w", link.Name, err)
	}
	link.Ifindex = pair.Index
	if err := m.bringUp(ns, pair, link, guard); err != nil {
		return nil, errors.Join(err, m.route.LinkDel(pair))
	}
	return link, nil
}

func (m *Manager) bringUp(ns *Namespace, pair *netlink.Veth, link *Link, guard func(*Link) error) error {
	if err := guard(link); err != nil {
		return fmt.Errorf("guard veth %s: %w", link.Name, err)
	}
	eth0, err := ns.route.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("find eth0: %w", err)
	}
	node := end{route: m.route, link: pair, ipv6: m.ipv6, own4: m.plan.gateway4(), own6: m.plan.gateway6(),
		peer4: link.Addr4, peer6: link.Addr6, peerMAC: link.JailMAC}
	if err := node.setUp(); err != nil {
		return fmt.Errorf("node end %s: %w", link.Name, err)
	}
	jail := end{route: ns.route, link: eth0, ipv6: m.ipv6, own4: link.Addr4, own6: link.Addr6,
		peer4: m.plan.gateway4(), peer6: m.plan.gateway6(), peerMAC: link.NodeMAC, isDefault: true}
	if err := jail.setUp(); err != nil {
		return fmt.Errorf("jail end of %s: %w", link.Name, err)
	}
	return m.awaitCarrier(link)
}

// carrierLimit bounds awaitCarrier, which takes one query where the kernel is new enough and a few milliseconds elsewhere.
const carrierLimit = 3 * time.Second

// awaitCarrier waits until the node's end really transmits. It was set up first, when it had no carrier, so its queue still
// discards: the kernel's link watch turns it on later, from a work item that waits for the same lock as everybody's network
// configuration. A reply that comes earlier is lost, which costs the job's first connection a second. From kernel 6.7 on
// the query itself makes up for the work item.
func (m *Manager) awaitCarrier(link *Link) error {
	for deadline := time.Now().Add(carrierLimit); ; time.Sleep(time.Millisecond) {
		state, err := m.route.LinkByIndex(link.Ifindex)
		if err != nil {
			return fmt.Errorf("look at %s: %w", link.Name, err)
		}
		if state.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("veth %s: no carrier within %s", link.Name, carrierLimit)
		}
	}
}

// end is one end of a pair.
type end struct {
	route        *netlink.Handle
	link         netlink.Link
	ipv6         bool
	own4, own6   netip.Addr
	peer4, peer6 netip.Addr
	peerMAC      net.HardwareAddr
	isDefault    bool // everything goes to the peer
}

func (e end) setUp() error {
	if e.ipv6 {
		// No link-local address: nothing here needs one, and no router solicitation is sent without.
		if err := e.route.LinkSetIP6AddrGenMode(e.link, 1); err != nil {
			return fmt.Errorf("set address generation mode: %w", err)
		}
	}
	if err := e.address(e.own4); err != nil {
		return err
	}
	if err := e.route.LinkSetUp(e.link); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := e.reach(e.peer4); err != nil {
		return err
	}
	if !e.ipv6 {
		return nil
	}
	if err := e.address(e.own6); err != nil {
		return err
	}
	if e.isDefault {
		if err := e.receive(e.own6); err != nil {
			return err
		}
	}
	return e.reach(e.peer6)
}

// receive adds the route that makes the end take packets for its own IPv6 address. The kernel adds one as well, but even
// without duplicate detection it does so later, from a work item: until then replies are thrown away as somebody else's.
// (The node's end receives nothing.)
func (e end) receive(own netip.Addr) error {
	route := &netlink.Route{LinkIndex: e.link.Attrs().Index, Dst: host(own), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
	if err := e.route.RouteAdd(route); err != nil {
		return fmt.Errorf("add local route to %s: %w", own, err)
	}
	return nil
}

func (e end) address(own netip.Addr) error {
	addr := &netlink.Addr{IPNet: host(own)}
	if own.Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	if err := e.route.AddrAdd(e.link, addr); err != nil {
		return fmt.Errorf("add address %s: %w", own, err)
	}
	return nil
}

// reach adds the permanent neighbour entry of the peer and the route to it, or through it to everything.
func (e end) reach(peer netip.Addr) error {
	index := e.link.Attrs().Index
	err := e.route.NeighSet(&netlink.Neigh{
		LinkIndex: index, State: netlink.NUD_PERMANENT, IP: peer.AsSlice(), HardwareAddr: e.peerMAC,
	})
	if err != nil {
		return fmt.Errorf("set neighbour %s: %w", peer, err)
	}
	route := &netlink.Route{LinkIndex: index, Dst: host(peer), Scope: netlink.SCOPE_LINK}
	if e.isDefault {
		any := netip.PrefixFrom(peer, 0).Masked()
		route = &netlink.Route{
			LinkIndex: index, Gw: peer.AsSlice(), Flags: int(netlink.FLAG_ONLINK),
			Dst: &net.IPNet{IP: any.Addr().AsSlice(), Mask: net.CIDRMask(0, peer.BitLen())},
		}
	}
	if err := e.route.RouteAdd(route); err != nil {
		return fmt.Errorf("add route to %s: %w", peer, err)
	}
	return nil
}

// ipv6Present says whether the kernel speaks IPv6 and new devices of the calling thread's namespace may.
func ipv6Present() (bool, error) {
	off, err := os.ReadFile("/proc/sys/net/ipv6/conf/default/disable_ipv6")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return len(off) > 0 && off[0] == '0', nil
}
