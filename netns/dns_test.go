package netns

import (
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// echoDNS echoes on a jail's DNS sockets, and returns what closes them.
func echoDNS(t *testing.T, n *Namespace) (stop func()) {
	t.Helper()
	udp, tcp, err := n.TakeDNS()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		b := make([]byte, 512)
		for {
			n, from, err := udp.ReadFrom(b)
			if err != nil {
				return
			}
			udp.WriteTo(b[:n], from)
		}
	}()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	return func() { check(t, udp.Close()); check(t, tcp.Close()) }
}

// TestWhatWaitsForAResolverIsLittle: memory of sockets that the agent opened is not the jail's.
func TestWhatWaitsForAResolverIsLittle(t *testing.T) {
	hosttest.Root(t)
	n := must(New())(t)
	defer n.Close()
	udp, tcp, err := n.TakeDNS()
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	defer tcp.Close()
	of := func(c syscall.Conn, fn func(fd int) error) {
		t.Helper()
		check(t, onSocket(must(c.SyscallConn())(t), fn))
	}
	of(tcp.(*net.TCPListener), func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		if err == nil && info.Sacked != dnsBacklog { // of a listener, the length of its queue
			t.Errorf("%d connections may wait, want %d", info.Sacked, dnsBacklog)
		}
		return err
	})
	// One connection holds no more than a little, however much is sent.
	var c net.Conn
	check(t, n.inside(func() (err error) { c, err = net.Dial("tcp", tcp.Addr().String()); return err }))
	defer c.Close()
	check(t, c.(*net.TCPConn).SetWriteBuffer(1))
	check(t, c.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
	sent := 0
	for block := make([]byte, 4096); ; {
		k, err := c.Write(block)
		sent += k
		if err != nil {
			break
		}
	}
	if sent > 8*dnsStream {
		t.Errorf("%d bytes wait on one connection", sent)
	}
}

// One world for all: making it takes seconds.
func TestNamesOfAJail(t *testing.T) {
	hosttest.Netns(t, func() {
		w := newWorld(t, bpf.HookAuto)
		dnsIsTheJailsOwn(t, w)
		pinsOpenAJailsWay(t, w)
		aConnectionKeepsItsPinBusy(t, w)
	})
}

func dnsIsTheJailsOwn(t *testing.T, w *world) {
	at := netip.AddrPortFrom(DNSAddress, 53).String()
	none, allow, other := w.newJail("none", nil, nil), w.newJail("allow", nil, nil), w.newJail("open", nil, nil)
	defer echoDNS(t, none.ns)()
	defer echoDNS(t, allow.ns)()
	for _, network := range []string{"udp", "tcp"} {
		for name, j := range map[string]*jail{"none": none, "allow": allow} {
			if got := j.dial(network, at, true); !got.Echoed {
				t.Errorf("%s in mode %s: %+v, want an answer", network, name, got)
			}
		}
		if got := other.dial(network, at, true); got.Echoed {
			t.Errorf("%s from a jail that nobody answers: %+v", network, got)
		}
	}
	if _, _, err := none.ns.TakeDNS(); err == nil {
		t.Error("the sockets were given out twice")
	}
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the node reaches a jail's resolver")
	}
}

func pinsOpenAJailsWay(t *testing.T, w *world) {
	j, other := w.newJail("allow", []string{denied4 + ":443"}, nil), w.newJail("allow", nil, nil)
	pins := j.ns.NewPins(w.egress.NewPins())
	defer func() { check(t, pins.Close()) }()
	j.bindPins(pins.ID())
	target := allowed4 + ":443"
	ports := []bpf.Ports{{Low: 443, High: 443, Protocols: bpf.TCP | bpf.UDP}}
	for _, a := range []string{allowed4, allowed6} {
		check(t, pins.Pin(netip.MustParseAddr(a), ports))
	}
	for _, network := range []string{"tcp", "udp"} {
		for _, address := range []string{target, "[" + allowed6 + "]:443"} {
			if got := j.dial(network, address, true); !got.Echoed {
				t.Errorf("%s %s: %+v, want an echo", network, address, got)
			}
			if got := j.dial(network, address, false); !got.Echoed { // the packet hooks alone
				t.Errorf("%s %s past the socket hooks: %+v, want an echo", network, address, got)
			}
			if got := other.dial(network, address, true); got.Errno != syscall.EPERM {
				t.Errorf("%s %s from another jail: %+v", network, address, got)
			}
		}
	}
	check(t, pins.Unpin(netip.MustParseAddr(allowed4)))
	before := w.hitCount("tcp", allowed4)
	if got := j.dial("tcp", target, true); got.Errno != syscall.EPERM {
		t.Errorf("unpinned: %+v", got)
	}
	if got := j.dial("tcp", target, false); got.Echoed || w.hitCount("tcp", allowed4) != before {
		t.Errorf("unpinned, past the socket hooks: %+v", got)
	}
}

func (j *jail) bindPins(id uint32) {
	t := j.t
	t.Helper()
	policy, release, err := j.egress.SetPolicy(j.policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, release()) })
	l := j.link
	check(t, j.egress.BindVeth(bpf.Veth{
		Ifindex: l.Ifindex, Slot: j.slot, Policy: policy, Pins: id, Addr4: l.Addr4, Addr6: l.Addr6, JailMAC: l.JailMAC, NodeMAC: l.NodeMAC,
	}))
	check(t, j.egress.BindCgroup(bpf.Job{Cgroup: j.id, Slot: j.slot, Policy: policy, Pins: id, Addr4: l.Addr4, Addr6: l.Addr6}))
}

func aConnectionKeepsItsPinBusy(t *testing.T, w *world) {
	// Open by rules, so that no packet touches the pins: what is found is the connection itself.
	j := w.newJail("open", nil, nil)
	pins := j.ns.NewPins(w.egress.NewPins())
	defer func() { check(t, pins.Close()) }()
	busy := func(a string) bool {
		t.Helper()
		return must(pins.Busy(netip.MustParseAddr(a)))(t)
	}
	for _, a := range []string{allowed4, allowed6} {
		check(t, pins.Pin(netip.MustParseAddr(a), []bpf.Ports{{Low: 443, High: 443, Protocols: bpf.TCP}}))
		if busy(a) {
			t.Errorf("%s is busy before anything was sent", a)
		}
		var c net.Conn
		in(t, j.ns, func() { c = must(net.Dial("tcp", net.JoinHostPort(a, "443")))(t) })
		if !busy(a) {
			t.Errorf("%s is not busy with a connection", a)
		}
		if busy(denied4) {
			t.Error("another address is busy")
		}
		check(t, c.(*net.TCPConn).SetLinger(0))
		check(t, c.Close())
		if busy(a) {
			t.Errorf("%s is busy after its connection", a)
		}
	}
}
