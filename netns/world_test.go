package netns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// The world of these tests: a "node" namespace (the test's own thread), an "outside" namespace behind a veth pair, and
// jails. Outside knows no route to the jails' addresses, so what comes back has been masqueraded.
const (
	allowed4  = "203.0.113.10"
	denied4   = "203.0.113.20"
	metadata4 = "169.254.169.254"
	node4     = "203.0.113.2"
	allowed6  = "2001:db8:1::10"
	denied6   = "2001:db8:1::20"
	metadata6 = "fd00:ec2::254"
)

type world struct {
	t       testing.TB
	outside *Namespace
	manager *Manager
	egress  *bpf.Egress
	parent  string // control group of all jails
	hits    sync.Map
	slot    uint32
	events  chan bpf.Event
}

// newWorld must run on a thread in the node's namespace.
func newWorld(t testing.TB, hook bpf.Hook) *world {
	t.Helper()
	w := &world{t: t, events: make(chan bpf.Event, 4096)}
	w.outside = must(New())(t)
	t.Cleanup(func() { w.outside.Close() })
	w.wire()
	w.listen()
	w.settle()

	var problems []Problem
	var err error
	w.manager, problems, err = Open(Options{Instance: "7e57", SetForwarding: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 0 {
		t.Fatalf("problems: %+v", problems)
	}
	t.Cleanup(func() { check(t, w.manager.Close()) })

	w.parent = filepath.Join(unifiedCgroup(t), fmt.Sprintf("tb-netns-%d-%d", os.Getpid(), serial.Add(1)))
	check(t, os.Mkdir(w.parent, 0o755))
	t.Cleanup(func() { check(t, os.Remove(w.parent)) })
	node := must(w.manager.NodePrefixes())(t)
	w.egress, err = bpf.Load(bpf.Options{Cgroup: w.parent, Node: append(node, w.manager.Pools()...), Hook: hook, MaxRules: 10_000})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { check(t, w.egress.Close()) })
	go func() {
		defer close(w.events)
		for e := range w.egress.Events() {
			w.events <- e
		}
	}()
	return w
}

var serial atomic.Int64

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func unifiedCgroup(t testing.TB) string {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile("/proc/self/mounts"))(t))) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	hosttest.Need(t, "cgroup2", false, "no cgroup v2 hierarchy is mounted")
	return ""
}

// wire joins node and outside, and gives the outside all the addresses that tests ask for.
func (w *world) wire() {
	t := w.t
	check(t, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "up0"}, PeerName: "down0", PeerNamespace: netlink.NsFd(w.outside.File().Fd()),
	}))
	up := must(netlink.LinkByName("up0"))(t)
	for _, a := range []string{node4 + "/24", "2001:db8::2/64"} {
		addr := must(netlink.ParseAddr(a))(t)
		addr.Flags = unix.IFA_F_NODAD
		check(t, netlink.AddrAdd(up, addr))
	}
	out := w.outside.route
	down := must(out.LinkByName("down0"))(t)
	lo := must(out.LinkByName("lo"))(t)
	for _, a := range []string{"203.0.113.1/24", "2001:db8::1/64"} {
		addr := must(netlink.ParseAddr(a))(t)
		addr.Flags = unix.IFA_F_NODAD
		check(t, out.AddrAdd(down, addr))
	}
	for _, a := range []string{allowed4 + "/32", denied4 + "/32", metadata4 + "/32", allowed6 + "/128", denied6 + "/128", metadata6 + "/128"} {
		addr := must(netlink.ParseAddr(a))(t)
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD
		}
		check(t, out.AddrAdd(lo, addr))
	}
	// Without link-local addresses there is no duplicate detection, which would hold up the first packet here, outside of
	// what is tested.
	check(t, netlink.LinkSetIP6AddrGenMode(up, 1))
	check(t, out.LinkSetIP6AddrGenMode(down, 1))
	check(t, netlink.LinkSetUp(up))
	check(t, out.LinkSetUp(down))
	// Nor is neighbour discovery between node and outside what is tested.
	neighbour := func(address string, here, there netlink.Link) *netlink.Neigh {
		return &netlink.Neigh{LinkIndex: here.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(address), HardwareAddr: there.Attrs().HardwareAddr}
	}
	up, down = must(netlink.LinkByName("up0"))(t), must(out.LinkByName("down0"))(t)
	check(t, netlink.NeighSet(neighbour("2001:db8::1", up, down)))
	check(t, out.NeighSet(neighbour("2001:db8::2", down, up)))
	for _, gw := range []string{"203.0.113.1", "2001:db8::1"} {
		_, all, _ := net.ParseCIDR(map[bool]string{true: "::/0", false: "0.0.0.0/0"}[strings.Contains(gw, ":")])
		check(t, netlink.RouteAdd(&netlink.Route{LinkIndex: up.Attrs().Index, Gw: net.ParseIP(gw), Dst: all}))
	}
}

// settle waits until the node reaches the outside over IPv6: the kernel tells a new pair's carrier to IPv6 up to a second
// late, which has nothing to do with what is tested.
func (w *world) settle() {
	for range 50 {
		c, err := net.DialTimeout("tcp", "["+allowed6+"]:443", 100*time.Millisecond)
		if err == nil {
			c.Close()
			return
		}
	}
	w.t.Fatal("the node does not reach the outside")
}

// in runs fn on a thread in ns.
func in(t testing.TB, n *Namespace, fn func()) {
	t.Helper()
	target, err := ns.GetNS(fmt.Sprintf("/proc/self/fd/%d", n.File().Fd()))
	check(t, err)
	defer target.Close()
	check(t, target.Do(func(ns.NetNS) error { fn(); return nil }))
}

// listen puts an echoing server for TCP and UDP on port 443 of every outside address, and counts who gets there.
func (w *world) listen() {
	in(w.t, w.outside, func() {
		for _, network := range []string{"tcp4", "tcp6"} {
			l, err := net.Listen(network, ":443")
			if err != nil {
				w.t.Error(err)
				return
			}
			w.t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					w.hit("tcp", c.LocalAddr())
					w.t.Cleanup(func() { c.Close() }) // a connection that a test has cut would wait for ever
					go func() { defer c.Close(); io.Copy(c, c) }()
				}
			}()
		}
		for _, a := range []string{allowed4, denied4, metadata4, allowed6, denied6, metadata6} {
			c, err := net.ListenPacket("udp", net.JoinHostPort(a, "443"))
			if err != nil {
				w.t.Error(err)
				return
			}
			w.t.Cleanup(func() { c.Close() })
			go func() {
				b := make([]byte, 65536)
				for {
					n, from, err := c.ReadFrom(b)
					if err != nil {
						return
					}
					w.hit("udp", c.LocalAddr())
					c.WriteTo(b[:n], from)
				}
			}()
		}
	})
}

func (w *world) hit(network string, a net.Addr) {
	n, _ := w.hits.LoadOrStore(network+" "+netip.MustParseAddrPort(a.String()).Addr().Unmap().String(), new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// hitCount is how many connections or datagrams reached an outside address.
func (w *world) hitCount(network, addr string) int64 {
	n, ok := w.hits.Load(network + " " + addr)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

// jail is a namespace and a control group under one policy.
type jail struct {
	*world
	ns     *Namespace
	link   *Link
	policy bpf.Policy
	cgroup string
	id     uint64
	slot   uint32
}

func (w *world) newJail(mode string, allow, deny []string) *jail {
	t := w.t
	t.Helper()
	w.slot++
	j := &jail{world: w, slot: w.slot}
	policy := must(ParsePolicy(mode, allow, deny))(t)
	j.policy = policy
	id, release, err := w.egress.SetPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	j.ns = must(New())(t)
	if policy.Mode != bpf.ModeNone {
		j.link, err = w.manager.Connect(j.ns, func(l *Link) error {
			return w.egress.BindVeth(bpf.Veth{
				Ifindex: l.Ifindex, Slot: j.slot, Policy: id, Addr4: l.Addr4, Addr6: l.Addr6, JailMAC: l.JailMAC, NodeMAC: l.NodeMAC,
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	j.cgroup = filepath.Join(w.parent, fmt.Sprintf("%d", j.slot))
	check(t, os.Mkdir(j.cgroup, 0o755))
	j.id = must(bpf.CgroupID(j.cgroup))(t)
	job := bpf.Job{Cgroup: j.id, Slot: j.slot, Policy: id}
	if j.link != nil {
		job.Addr4, job.Addr6 = j.link.Addr4, j.link.Addr6
	}
	check(t, w.egress.BindCgroup(job))
	t.Cleanup(func() {
		check(t, w.egress.UnbindCgroup(j.id))
		if j.link != nil {
			check(t, w.egress.UnbindVeth(j.link.Ifindex))
		}
		check(t, release())
		check(t, j.ns.Close())
		check(t, os.Remove(j.cgroup))
	})
	return j
}

// outcome is what a child in the jail saw.
type outcome struct {
	Errno  syscall.Errno
	Micros int64
	Echoed bool
}

// dial connects from a process in the jail's namespace and, when grouped, its control group, sends a line and waits for the
// echo.
func (j *jail) dial(network, address string, grouped bool) outcome {
	t := j.t
	t.Helper()
	var out outcome
	in(t, j.ns, func() {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "TOLBOOTH_NETNS_DIAL="+network+" "+address)
		cmd.Stderr = os.Stderr
		if grouped {
			dir := must(os.Open(j.cgroup))(t)
			defer dir.Close()
			cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
		}
		text, err := cmd.Output()
		if err != nil {
			t.Errorf("child: %v", err)
			return
		}
		check(t, json.Unmarshal(text, &out))
	})
	return out
}

func dialAsChild(spec string) {
	network, address, _ := strings.Cut(spec, " ")
	var out outcome
	start := time.Now()
	c, err := net.DialTimeout(network, address, 300*time.Millisecond)
	out.Micros = time.Since(start).Microseconds()
	if err == nil {
		c.SetDeadline(time.Now().Add(700 * time.Millisecond))
		_, err = c.Write([]byte("hello"))
		if err == nil {
			b := make([]byte, 5)
			_, err = io.ReadFull(c, b)
			out.Echoed = err == nil && string(b) == "hello"
		}
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		out.Errno = errno
	} else if err != nil {
		out.Errno = syscall.ETIMEDOUT
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(text)
}

// event waits for the next event of the jail.
func (j *jail) event() (bpf.Event, bool) {
	deadline := time.After(2 * time.Second)
	for {
		select {
		case e := <-j.events:
			if e.Slot == j.slot {
				return e, true
			}
		case <-deadline:
			return bpf.Event{}, false
		}
	}
}
