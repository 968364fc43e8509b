package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Options of a Manager.
type Options struct {
	Instance      string       // 4 lower-case hex digits: the agent's own, in every kernel object's name; required
	Pool4         netip.Prefix // zero: 198.19.0.0/16. The jails' addresses
	Pool6         netip.Prefix // zero: fd74:6f6c:6c62::/64
	MTU           int          // of the veths; 0: that of the device with the default route, at most 1500
	SetForwarding bool         // turn on IP forwarding on the node where it is off. It stays on after Close
}

// Problem is something about the node that keeps jails from having a network, for health and doctor.
type Problem struct {
	What string
	Why  string
	Fix  string
}

// Manager owns the node's side of all jails' networks.
type Manager struct {
	instance string
	group    uint32 // device group of the node ends
	plan     plan
	mtu      int
	ipv6     bool
	node     ns.NetNS // the node's network namespace
	route    *netlink.Handle

	mu   sync.Mutex
	next uint16 // index that Connect tries first
}

var instanceForm = regexp.MustCompile(`^[0-9a-f]{4}$`)

// Open sets up the node's side in the calling thread's network namespace: the nftables table tb-<instance>, replaced as a
// whole when it exists. Problems are no error: jails without a network work all the same.
func Open(o Options) (*Manager, []Problem, error) {
	if !instanceForm.MatchString(o.Instance) {
		return nil, nil, fmt.Errorf("open network: instance %q is not 4 hex digits", o.Instance)
	}
	if !o.Pool4.IsValid() {
		o.Pool4 = defaultPool4
	}
	if !o.Pool6.IsValid() {
		o.Pool6 = defaultPool6
	}
	plan, err := newPlan(o.Pool4, o.Pool6)
	if err != nil {
		return nil, nil, fmt.Errorf("open network: %w", err)
	}
	instance, err := strconv.ParseUint(o.Instance, 16, 16)
	if err != nil {
		return nil, nil, fmt.Errorf("open network: %w", err)
	}
	node, err := ns.GetCurrentNS()
	if err != nil {
		return nil, nil, fmt.Errorf("open network: %w", err)
	}
	route, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open network: route socket: %w", err), node.Close())
	}
	m := &Manager{
		instance: o.Instance,
		group:    0x74620000 | uint32(instance), // "tb"
		plan:     plan,
		mtu:      o.MTU,
		node:     node,
		route:    route,
		// Agents that share a node and its pools start at different places, so that they rarely try the same index.
		next: uint16(instance*257%maxIndex) + 1,
	}
	problems, err := m.setUp(o.SetForwarding)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open network: %w", err), m.release())
	}
	return m, problems, nil
}

func (m *Manager) setUp(forwarding bool) ([]Problem, error) {
	problems, err := m.checkForwarding(forwarding)
	if err != nil {
		return nil, err
	}
	uplinks, err := m.uplinks()
	if err != nil {
		return nil, err
	}
	if m.mtu == 0 {
		m.mtu = smallestMTU(uplinks)
	}
	foreign, err := m.foreignPrograms(uplinks)
	if err != nil {
		return nil, err
	}
	blocked, err := m.blockingChains()
	if err != nil {
		return nil, err
	}
	return slices.Concat(problems, foreign, blocked), m.writeTable()
}

// prefix begins the name of every node end.
func (m *Manager) prefix() string { return "tb" + m.instance }

func (m *Manager) table() string { return "tb-" + m.instance }

// Pools are the ranges that jails' addresses come from: internal ranges for package bpf.
func (m *Manager) Pools() []netip.Prefix { return []netip.Prefix{m.plan.pool4, m.plan.pool6} }

// Close removes the table. Call it when no jail is left; links of jails that still run keep working without masquerade,
// which is not at all.
func (m *Manager) Close() error { return errors.Join(m.deleteTable(), m.release()) }

func (m *Manager) release() error {
	m.route.Close()
	return m.node.Close()
}
