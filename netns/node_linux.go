package netns

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// sysctls are read and written in the calling thread's network namespace.
const (
	forward4 = "/proc/sys/net/ipv4/ip_forward"
	forward6 = "/proc/sys/net/ipv6/conf/all/forwarding"
)

// checkForwarding also finds out whether the node has IPv6 at all.
func (m *Manager) checkForwarding(set bool) ([]Problem, error) {
	var problems []Problem
	ipv6, err := ipv6Present()
	if err != nil {
		return nil, fmt.Errorf("look for IPv6: %w", err)
	}
	m.ipv6 = ipv6
	on, err := forwarding(forward4, set)
	if err != nil {
		return nil, err
	}
	if !on {
		problems = append(problems, Problem{
			What: "jobs cannot reach an IPv4 network",
			Why:  "the node does not forward packets (net.ipv4.ip_forward is 0)",
			Fix:  "sysctl -w net.ipv4.ip_forward=1, or let the agent set it",
		})
	}
	if !ipv6 {
		return append(problems, Problem{
			What: "jobs have no IPv6",
			Why:  "the node has IPv6 turned off (net.ipv6.conf.default.disable_ipv6)",
			Fix:  "none is needed unless jobs must reach IPv6 addresses",
		}), nil
	}
	advertised, err := m.hasAdvertisedRoutes()
	if err != nil {
		return nil, err
	}
	// A node that forwards stops listening to router advertisements, and would lose the routes it learned from them.
	on, err = forwarding(forward6, set && !advertised)
	if err != nil {
		return nil, err
	}
	if !on {
		problems = append(problems, Problem{
			What: "jobs cannot reach an IPv6 network",
			Why:  "the node does not forward packets (net.ipv6.conf.all.forwarding is 0)",
			Fix:  "set net.ipv6.conf.all.forwarding=1; where the node's routes come from router advertisements, first set accept_ra=2 on that interface",
		})
	}
	return problems, nil
}

func forwarding(path string, set bool) (bool, error) {
	value, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("read forwarding: %w", err)
	}
	if string(bytes.TrimSpace(value)) != "0" {
		return true, nil
	}
	if !set {
		return false, nil
	}
	if err := os.WriteFile(path, []byte("1"), 0); err != nil {
		return false, fmt.Errorf("turn on forwarding: %w", err)
	}
	return true, nil
}

func (m *Manager) hasAdvertisedRoutes() (bool, error) {
	routes, err := whole(func() ([]netlink.Route, error) {
		return m.route.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: unix.RTPROT_RA}, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return false, fmt.Errorf("list IPv6 routes: %w", err)
	}
	return len(routes) > 0, nil
}

// NodePrefixes are all addresses of the node's interfaces: no job may reach them. They change; ask again now and then.
func (m *Manager) NodePrefixes() ([]netip.Prefix, error) {
	addrs, err := whole(func() ([]netlink.Addr, error) { return m.route.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list the node's addresses: %w", err)
	}
	seen := map[netip.Prefix]bool{}
	var out []netip.Prefix
	for _, a := range addrs {
		addr, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			return nil, fmt.Errorf("list the node's addresses: %q is none", a.IP.String())
		}
		addr = addr.Unmap()
		p := netip.PrefixFrom(addr, addr.BitLen())
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out, nil
}

// Sweep deletes what an earlier agent of this instance left: its veths, save those named in keep. Its table Open has
// replaced already. Call it before the first Connect.
func (m *Manager) Sweep(keep ...string) error {
	left, err := m.Leftovers()
	if err != nil {
		return err
	}
	doomed := slices.DeleteFunc(slices.Clone(left), func(name string) bool { return slices.Contains(keep, name) })
	switch len(doomed) {
	case 0:
		return nil
	case len(left):
		return m.deleteAll()
	}
	for _, name := range doomed {
		err := m.route.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: name}})
		if err != nil && !errors.Is(err, unix.ENODEV) && !isNotFound(err) {
			return fmt.Errorf("delete veth %s: %w", name, err)
		}
	}
	return nil
}

// deleteAll deletes by group: one request and one wait for all, where each veth deleted by itself costs tens of
// milliseconds.
func (m *Manager) deleteAll() error {
	req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(m.group)))
	err := m.inNode(func() error {
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete veths of group %#x: %w", m.group, err)
	}
	return nil
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[netlink.LinkNotFoundError](err)
	return ok
}

// dumps bounds how often a listing is asked for again: changes that come without a pause would keep it from ever ending.
const dumps = 50

// whole asks the kernel for a list until nothing changed while it was being sent (NLM_F_DUMP_INTR, netlink(7)): what was
// there all the time may be missing otherwise.
func whole[T any](list func() ([]T, error)) ([]T, error) {
	for i := 1; ; i++ {
		items, err := list()
		if i == dumps || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return items, err
		}
	}
}

// Leftovers are the names of this instance's node ends that exist.
func (m *Manager) Leftovers() ([]string, error) {
	links, err := whole(m.route.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var out []string
	for _, l := range links {
		if l.Type() == "veth" && strings.HasPrefix(l.Attrs().Name, m.prefix()) && l.Attrs().Group == m.group {
			out = append(out, l.Attrs().Name)
		}
	}
	return out, nil
}

// inNode runs fn in the node's namespace, on a thread that is given up should it not come back.
func (m *Manager) inNode(fn func() error) error {
	return m.node.Do(func(ns.NetNS) error { return fn() })
}
