package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/netns"
	"github.com/tolbooth-dev/tolbooth/netns/resolver"
)

// nets connects jobs to the network: the policy is bound before the job's first instruction, the veth, if the job may
// talk at all, carries it from its first packet.
type nets struct {
	egress *bpf.Egress
	links  *netns.Manager
	lookup lookup
	faults *faults

	ceiling ceiling // for fixes: none leads beyond it

	mu       sync.Mutex
	watching map[uint32]*wire // by slot; guarded by mu
	refused  map[string]int64 // refusals by rule, for metrics; guarded by mu
}

// wire is one job's connection.
type wire struct {
	nets   *nets
	slot   uint32
	cgroup uint64
	ns     *netns.Namespace // nil: the job is in the agent's
	zero   time.Duration    // monotonic time of the job's admission
	deny   func(api.Denial)
	pins   *netns.Pins    // nil: the job is in the agent's namespace
	names  *resolver.Jail // nil: likewise

	changing sync.Mutex // guards what follows
	closed   bool
	policy   uint32
	release  func() error // of the policy
	link     *netns.Link  // nil: the job never had a network
	rate     int64        // of the link
	cut      int64        // the budget at whose end connections were ended

	mu      sync.Mutex // guards what follows
	network network
	denials denialSet
	events  uint64
}

func newNets(e *bpf.Egress, m *netns.Manager, l lookup, c ceiling, f *faults) *nets {
	n := &nets{egress: e, links: m, lookup: l, ceiling: c, faults: f, watching: map[uint32]*wire{}, refused: map[string]int64{}}
	go n.dispatch()
	return n
}

// Plug binds the job's policy to its cgroup and, unless it has no network, gives its namespace a veth whose node end is
// judged by the same policy.
func (n *nets) Plug(w *work, p *place, deny func(api.Denial)) (_ plug, err error) {
	x := &wire{nets: n, slot: p.slot, ns: p.netns, network: w.Network, zero: monotonic() - time.Since(w.Admitted), deny: deny}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	if x.cgroup, err = bpf.CgroupID(p.dir); err != nil {
		return nil, err
	}
	if x.policy, x.release, err = n.egress.SetPolicy(w.Network.Policy); err != nil {
		return nil, fmt.Errorf("load the egress policy: %w", err)
	}
	if err := x.serveNames(); err != nil {
		return nil, err
	}
	n.watch(x)
	return x, x.judge(x.policy)
}

func (n *nets) watch(x *wire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watching[x.slot] = x
}

// dispatch hands each event to the job whose slot it names. It ends when the egress is closed.
func (n *nets) dispatch() {
	for e := range n.egress.Events() {
		n.mu.Lock()
		n.refused[e.Rule]++
		x := n.watching[e.Slot]
		n.mu.Unlock()
		if x != nil {
			x.event(e)
		}
	}
}

// event records one refusal of the job.
func (x *wire) event(e bpf.Event) {
	x.mu.Lock()
	d := x.word(e)
	x.events++
	fresh := x.denials.add(d)
	x.mu.Unlock()
	if fresh {
		x.deny(d)
	}
	if e.Rule == "network.budget" {
		go x.spent()
	}
}

// Denials are all refusals of the job so far. The ring is read by another goroutine, so it waits, briefly, until that has
// seen as many events of the slot as the kernel sent.
func (x *wire) Denials() []api.Denial {
	if x.names != nil {
		x.names.Flush()
	}
	for deadline := time.Now().Add(200 * time.Millisecond); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		c, err := x.nets.egress.Stats(x.slot)
		if err != nil || x.seen() >= c.Reported {
			break
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.denials.list)
}

func (x *wire) seen() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.events
}

// Close forgets the job: its cgroup first, so that whatever might still run in it is refused.
func (x *wire) Close() error {
	x.changing.Lock()
	defer x.changing.Unlock()
	x.closed = true
	var errs []error
	if x.cgroup != 0 {
		errs = append(errs, x.nets.egress.UnbindCgroup(x.cgroup))
	}
	if x.link != nil {
		errs = append(errs, x.nets.egress.UnbindVeth(x.link.Ifindex)) // the pair goes with its namespace
	}
	if x.release != nil {
		errs = append(errs, x.release())
	}
	errs = append(errs, x.closeNames())
	x.nets.mu.Lock()
	delete(x.nets.watching, x.slot)
	x.nets.mu.Unlock()
	return errors.Join(errs...)
}

var netVerbs = map[bpf.Source]string{bpf.Connect: "connect", bpf.Sendmsg: "send to", bpf.Packet: "send a packet to"}

// word turns an event into a denial, by the rules that hold now, with the smallest change of the request that would allow the destination.
func (x *wire) word(e bpf.Event) api.Denial {
	proto := protocolName(e.Proto)
	dest := e.Addr.String() + "/" + proto
	if e.Port != 0 {
		dest = netip.AddrPortFrom(e.Addr, e.Port).String() + "/" + proto
	}
	d := api.Denial{
		Layer: "network", What: netVerbs[e.Source] + " " + dest, Rule: e.Rule, Errno: "EPERM", Count: int64(e.Count),
		PID: int(e.JailPID), Program: e.Program, Fix: noFix, Evidence: fromKernel,
		AtMS: max(0, (time.Duration(e.Monotonic) - x.zero).Milliseconds()),
	}
	if e.Source == bpf.Packet {
		d.Errno = "" // dropped on the wire: no system call was there to fail
	}
	switch e.Rule {
	case "network.none":
		d.Why = "the job has no network (network.mode none, the default); allow the destinations that it needs"
		x.fixAllow(&d, nil, dest)
	case "network.default":
		d.Why = "the destination is not in network.allow; add it there if the job needs it"
		x.fixAllow(&d, x.network.Allow, dest)
		x.nameAddress(&d, e, proto)
	case "network.budget":
		d.Layer, d.Errno = "limit", "ECONNABORTED"
		d.What = "send or receive more over the network than " + quantity(x.network.Budget)
		d.Why = "the job used up its network.budget, and its connections were ended; ask for more in the request"
		d.Fix = mustJSON(map[string]any{"network": map[string]any{"budget": quantity(2 * x.network.Budget)}})
	case "network.deny":
		d.Why = "a rule of network.deny names the destination, and deny outranks allow; remove that rule if the job needs it"
		d.Fix = x.denyFix(e)
	case "network.metadata":
		d.Why = "cloud metadata services and link-local addresses are never reachable from a job: they hand out the node's credentials"
	case "network.node":
		d.Why = "the node's own addresses, loopback of the node and internal ranges are closed to jobs by the node's configuration"
	}
	return d
}

// fixAllow offers to add rules to what is allowed already, where the node permits a request to.
func (x *wire) fixAllow(d *api.Denial, have []string, add ...string) {
	for _, text := range add {
		if !x.nets.ceiling.permits(text) {
			d.Fix, d.Why = noFix, fmt.Sprintf("the operator of this node permits no job to reach %s (network.permit)", text)
			return
		}
	}
	d.Fix = mustJSON(map[string]any{"network": map[string]any{"mode": "allow", "allow": append(slices.Clone(have), add...)}})
}

// denyFix is the request change that takes away the deny rules which name a destination, when the rest of the policy lets it
// through.
func (x *wire) denyFix(e bpf.Event) jsontext.Value {
	p := x.network.Policy
	if p.Mode == bpf.ModeAllow && !slices.ContainsFunc(p.Allow, func(r bpf.Rule) bool { return names(r, e) }) {
		return noFix
	}
	rest := slices.DeleteFunc(slices.Clone(x.network.Deny), func(text string) bool {
		r, err := netns.ParseRule(text)
		return err == nil && names(r, e)
	})
	return mustJSON(map[string]any{"network": map[string]any{"deny": rest}})
}

// names reports whether a rule names the destination of an event.
func names(r bpf.Rule, e bpf.Event) bool {
	protocols := map[uint8]bpf.Protocols{unix.IPPROTO_TCP: bpf.TCP, unix.IPPROTO_UDP: bpf.UDP, unix.IPPROTO_ICMP: bpf.ICMP, unix.IPPROTO_ICMPV6: bpf.ICMP}
	return r.Prefix.Contains(e.Addr) && r.Low <= e.Port && e.Port <= r.High && r.Protocols&protocols[e.Proto] != 0
}

func monotonic() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return time.Duration(ts.Nano())
}

// noNets stands in where the kernel offers no egress control: a job without a network needs none, any other is refused.
type noNets struct{}

func (noNets) Plug(w *work, p *place, _ func(api.Denial)) (plug, error) {
	if w.Network.Mode == "none" || w.hostNetwork() {
		return unplugged{}, p.closeLookups()
	}
	return nil, errors.New("this node has no egress control (see problems in /health), so no job gets a network")
}

// unplugged is the connection of a job that has none.
type unplugged struct{}

func (unplugged) Rewire(n network) (int, error) {
	if n.Mode == "none" {
		return 0, nil
	}
	return 0, refuse(api.ClassUnsupported, "network.mode", "this node has no egress control (see problems in /health), so no job gets a network")
}
func (unplugged) Denials() []api.Denial     { return nil }
func (unplugged) Traffic() (traffic, error) { return traffic{flows: []api.Flow{}}, nil }
func (unplugged) Close() error              { return nil }
