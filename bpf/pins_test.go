package bpf

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func port(n uint16, p Protocols) []Ports { return []Ports{{Low: n, High: n, Protocols: p}} }

func TestPinsOpenWhatNothingElseCloses(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{Node: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
		policy := Policy{
			Mode: ModeAllow, Allow: []Rule{rule("203.0.113.0/24", 80, 80, TCP)}, Deny: []Rule{rule("203.0.113.66/32", 0, 65535, AllProtocols)},
		}
		defer bindLoopback(t, e, 3, policy)()
		pins, other := e.NewPins(), e.NewPins()
		bind := func(id uint32) {
			t.Helper()
			var entry egressVeth
			check(t, e.objects.TbVeths.Lookup(uint32(1), &entry))
			entry.Pins = id
			check(t, e.objects.TbVeths.Put(uint32(1), entry))
		}
		bind(pins.ID())
		pinned := netip.MustParseAddr("203.0.113.10")
		check(t, other.Pin(netip.MustParseAddr("203.0.113.11"), port(443, TCP)))
		for _, a := range []string{"203.0.113.66", "10.9.1.1", "169.254.169.254", "1.2.3.4", "2001:db8::1"} {
			check(t, pins.Pin(netip.MustParseAddr(a), port(443, TCP)))
		}
		check(t, pins.Pin(pinned, []Ports{{443, 443, TCP}, {5000, 5010, UDP}}))
		if idle, err := pins.Idle(pinned); err != nil || idle < 10*time.Second {
			t.Errorf("idle for %s (%v) before anything was sent", idle, err)
		}
		for _, c := range []struct {
			name  string
			frame frame
			pass  bool
		}{
			{"pinned", frame{src: j4, dst: "203.0.113.10", proto: tcp, dport: 443, tcpFlags: syn}, true},
			{"its reply", frame{inbound: true, src: "203.0.113.10", dst: j4, proto: tcp, sport: 443, tcpFlags: syn | ack}, true},
			{"pinned where no rule is", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, tcpFlags: syn}, true},
			{"pinned6", frame{src: j6, dst: "2001:db8::1", proto: tcp, dport: 443, tcpFlags: syn}, true},
			{"pinned behind NAT64", frame{src: j6, dst: "64:ff9b::102:304", proto: tcp, dport: 443, tcpFlags: syn}, true},
			{"a rule beside the pin", frame{src: j4, dst: "203.0.113.10", proto: tcp, dport: 80, tcpFlags: syn}, true},
			{"another port", frame{src: j4, dst: "203.0.113.10", proto: tcp, dport: 444, tcpFlags: syn}, false},
			{"another protocol", frame{src: j4, dst: "203.0.113.10", proto: udp, dport: 443}, false},
			{"a range", frame{src: j4, dst: "203.0.113.10", proto: udp, dport: 5010}, true},
			{"ping", frame{src: j4, dst: "203.0.113.10", proto: icmp, icmpType: 8}, false},
			{"another job's pin", frame{src: j4, dst: "203.0.113.11", proto: tcp, dport: 443, tcpFlags: syn}, false},
			{"denied", frame{src: j4, dst: "203.0.113.66", proto: tcp, dport: 443, tcpFlags: syn}, false},
			{"the node", frame{src: j4, dst: "10.9.1.1", proto: tcp, dport: 443, tcpFlags: syn}, false},
			{"metadata", frame{src: j4, dst: "169.254.169.254", proto: tcp, dport: 443, tcpFlags: syn}, false},
		} {
			if got := e.run(t, c.frame); got != c.pass {
				t.Errorf("%s: pass is %v, want %v", c.name, got, c.pass)
			}
		}
		if idle, err := pins.Idle(pinned); err != nil || idle > 10*time.Second {
			t.Errorf("idle for %s (%v) after a packet", idle, err)
		}
		check(t, pins.Pin(pinned, port(444, TCP)))
		if idle, err := pins.Idle(pinned); err != nil || idle > 10*time.Second {
			t.Errorf("idle for %s (%v): new ports forget the use", idle, err)
		}
		for _, c := range []struct {
			port uint16
			pass bool
		}{{443, false}, {444, true}} {
			if got := e.run(t, frame{src: j4, dst: "203.0.113.10", proto: tcp, dport: c.port, tcpFlags: syn}); got != c.pass {
				t.Errorf("port %d after new ports: pass is %v", c.port, got)
			}
		}
		check(t, pins.Unpin(pinned))
		check(t, pins.Unpin(pinned))
		if e.run(t, frame{src: j4, dst: "203.0.113.10", proto: tcp, dport: 444, tcpFlags: ack}) {
			t.Error("unpinned, and passed")
		}
		bind(0)
		if e.run(t, frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, tcpFlags: syn}) {
			t.Error("without pins, and passed")
		}
		check(t, pins.Close())
		check(t, other.Close())
		if n := e.pinEntries(t); n != 0 {
			t.Errorf("%d pins are left", n)
		}
	})
}

func TestReserved(t *testing.T) {
	hosttest.Root(t)
	e := load(t, Options{Node: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("2001:db8:9::/48")}})
	for a, want := range map[string]bool{
		"10.9.1.1": true, "10.8.1.1": false, "1.2.3.4": false, "2001:db8:9::1": true, "2001:db8:8::1": false, "169.254.169.254": true,
		"64:ff9b::a9fe:a9fe": true, "64:ff9b::102:304": false, "127.0.0.1": true, "::1": true, "::ffff:10.9.1.1": true, "2002::1": true,
	} {
		if got, err := e.Reserved(netip.MustParseAddr(a)); err != nil || got != want {
			t.Errorf("%s: %v (%v), want %v", a, got, err, want)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func (e *Egress) pinEntries(t *testing.T) (n int) {
	t.Helper()
	check(t, deleteWhere(e.objects.TbPins, func(egressPinKey) bool { n++; return false }))
	return n
}

func TestSocketsSeePins(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{})
		dir, job := bindCgroup(t, e, 1, Policy{Mode: ModeAllow})
		if got := dialIn(t, dir, 1, "tcp/10.0.0.1:443"); got[0] != syscall.EPERM {
			t.Errorf("before: %v", got)
		}
		pins := e.NewPins()
		check(t, pins.Pin(netip.MustParseAddr("10.0.0.1"), port(443, TCP|UDP)))
		job.Pins = pins.ID()
		check(t, e.BindCgroup(job))
		got := dialIn(t, dir, 1, "tcp/10.0.0.1:443", "udp/10.0.0.1:443", "tcp/10.0.0.1:80", "udp/10.0.0.2:443")
		if got[0] != unreachable || got[1] != unreachable || got[2] != syscall.EPERM || got[3] != syscall.EPERM {
			t.Errorf("with pins: %v", got)
		}
	})
}

func TestPinsOfAnEarlierAgentAreSwept(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{})
		bindCgroup(t, e, 1, Policy{Mode: ModeOpen})
		old := e.NewPins()
		check(t, old.Pin(netip.MustParseAddr("10.0.0.1"), port(443, TCP)))
		check(t, e.Close())
		next := load(t, Options{Cgroup: e.cgroup.Name()})
		if !next.Adopted() {
			t.Fatal("nothing was taken over")
		}
		fresh := next.NewPins()
		if fresh.ID() == old.ID() {
			t.Error("the id of a set that is still there was given out again")
		}
		check(t, fresh.Pin(netip.MustParseAddr("10.0.0.2"), port(443, TCP)))
		check(t, next.Sweep())
		if n := next.pinEntries(t); n != 1 {
			t.Errorf("%d pins after the sweep, want the new one", n)
		}
	})
}

func TestMergePorts(t *testing.T) {
	got := MergePorts([]Ports{{1, 100, TCP}, {50, 200, TCP | UDP}}, []Ports{{60, 70, TCP}, {150, 65535, AllProtocols}})
	want := []Ports{{1, 49, TCP}, {50, 59, TCP | UDP}, {60, 70, UDP}, {71, 149, TCP | UDP}}
	// 50-100 and 101-149 say the same, and are one.
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
