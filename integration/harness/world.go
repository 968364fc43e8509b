package harness

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// World is what lies beyond an agent's node: a network namespace that the node reaches by one link and that owns any
// address a test wants, the metadata service's included.
type World struct {
	Ns netns.NsHandle
	t  testing.TB
}

// The link between node and world.
const (
	nodeSide4, worldSide4 = "10.87.0.1/30", "10.87.0.2/30"
	nodeSide6, worldSide6 = "fd87::1/126", "fd87::2/126"
)

// NewWorld makes a node namespace with a world behind it: forwarding on, default routes towards the world, and the
// given addresses (CIDR) on the world's lo.
func NewWorld(t testing.TB, addrs ...string) (node netns.NsHandle, w *World) {
	t.Helper()
	node = NewNetns(t)
	w = &World{Ns: NewNetns(t), t: t}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("make the world: %v", err)
		}
	}
	must(InNetns(node, func() error {
		for _, f := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+f, []byte("1"), 0o644); err != nil {
				return err
			}
		}
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "world"}, PeerName: "node", PeerNamespace: netlink.NsFd(int(w.Ns))}
		if err := netlink.LinkAdd(link); err != nil {
			return fmt.Errorf("add the link: %w", err)
		}
		return bringUp("world", nodeSide4, nodeSide6)
	}))
	must(InNetns(w.Ns, func() error {
		if err := bringUp("node", worldSide4, worldSide6); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if err := addAddr(lo, a); err != nil {
				return err
			}
		}
		return nil
	}))
	must(InNetns(node, func() error { return defaultVia("world", worldSide4, worldSide6) }))
	must(InNetns(w.Ns, func() error { return defaultVia("node", nodeSide4, nodeSide6) }))
	return node, w
}

// Serve accepts TCP connections at addr ("10.88.0.1:80") until the test ends and greets each with text. Accepted counts them.
func (w *World) Serve(addr, text string) (accepted func() int) {
	w.t.Helper()
	var l net.Listener
	err := InNetns(w.Ns, func() (err error) { l, err = net.Listen("tcp", addr); return err })
	if err != nil {
		w.t.Fatalf("listen: %v", err)
	}
	w.t.Cleanup(func() { l.Close() })
	n := make(chan int, 1)
	n <- 0
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n <- <-n + 1
			c.Write([]byte(text))
			c.Close()
		}
	}()
	return func() int { v := <-n; n <- v; return v }
}

func bringUp(name string, addrs ...string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if err := addAddr(l, a); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(l)
}

// addAddr adds an address without duplicate address detection, which would hold IPv6 back for a second.
func addAddr(l netlink.Link, cidr string) error {
	a, err := netlink.ParseAddr(cidr)
	if err != nil {
		return err
	}
	if a.IP.To4() == nil {
		a.Flags = 0x02 // IFA_F_NODAD
	}
	if err := netlink.AddrAdd(l, a); err != nil {
		return fmt.Errorf("add %s: %w", cidr, err)
	}
	return nil
}

func defaultVia(name string, gateways ...string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, g := range gateways {
		ip, _, err := net.ParseCIDR(g)
		if err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: ip}); err != nil {
			return fmt.Errorf("default route via %s: %w", ip, err)
		}
	}
	return nil
}
