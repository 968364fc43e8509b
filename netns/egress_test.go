package netns

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// eachHook runs a test by tcx where the kernel has it, and by clsact always.
func eachHook(t *testing.T, fn func(t *testing.T, hook bpf.Hook)) {
	for _, hook := range []bpf.Hook{bpf.HookTCX, bpf.HookClsact} {
		t.Run(string(hook), func(t *testing.T) {
			if hook == bpf.HookTCX {
				hosttest.Kernel(t, 6, 6, "tcx")
			}
			hosttest.Netns(t, func() { fn(t, hook) })
		})
	}
}

func TestJailReachesWhatItMayAndNothingElse(t *testing.T) {
	eachHook(t, func(t *testing.T, hook bpf.Hook) {
		w := newWorld(t, hook)
		j := w.newJail("allow", []string{allowed4 + ":443", "[" + allowed6 + "]:443", "0.0.0.0/0:8443"}, []string{denied4})
		other := w.newJail("open", nil, nil)
		for _, network := range []string{"tcp", "udp"} {
			for _, address := range []string{allowed4 + ":443", "[" + allowed6 + "]:443", "[::ffff:" + allowed4 + "]:443"} {
				if got := j.dial(network, address, true); !got.Echoed {
					t.Errorf("%s %s: %+v, want an echo", network, address, got)
				}
			}
			for _, refused := range []struct{ address, rule string }{
				{denied4 + ":443", "network.deny"},
				{denied4 + ":8443", "network.deny"},
				{"[" + denied6 + "]:443", "network.default"},
				{allowed4 + ":444", "network.default"},
				{metadata4 + ":8443", "network.metadata"},
				{"[::ffff:" + metadata4 + "]:8443", "network.metadata"},
				{"[64:ff9b::a9fe:a9fe]:8443", "network.metadata"},
				{"[" + metadata6 + "]:443", "network.metadata"},
				{"[fd20:ce::254]:443", "network.metadata"},
				{node4 + ":8443", "network.node"},
				{"198.19.255.254:8443", "network.node"},
				{other.link.Addr4.String() + ":8443", "network.node"},
			} {
				got := j.dial(network, refused.address, true)
				if got.Errno != syscall.EPERM || got.Micros > hosttest.Slow(100*time.Millisecond).Microseconds() {
					t.Errorf("%s %s: %+v, want EPERM within 100 ms", network, refused.address, got)
				}
				e, ok := j.event()
				want := netip.MustParseAddrPort(refused.address)
				if !ok || e.Rule != refused.rule || e.Addr != want.Addr().Unmap() || e.Port != want.Port() || e.PID == 0 || e.Program == "" {
					t.Errorf("%s %s: event %+v, want rule %s", network, refused.address, e, refused.rule)
				}
			}
		}
		// A process that the socket hooks do not see: the packet programs must hold alone.
		for _, network := range []string{"tcp", "udp"} {
			for _, address := range []string{allowed4 + ":443", "[" + allowed6 + "]:443"} {
				if got := j.dial(network, address, false); !got.Echoed {
					t.Errorf("outside the group: %s %s: %+v, want an echo", network, address, got)
				}
			}
			for _, refused := range []struct{ address, rule string }{
				{denied4 + ":443", "network.deny"}, {metadata4 + ":443", "network.metadata"},
				{"[" + metadata6 + "]:443", "network.metadata"}, {node4 + ":443", "network.node"},
			} {
				if got := j.dial(network, refused.address, false); got.Echoed || got.Errno == 0 {
					t.Errorf("outside the group: %s %s: %+v", network, refused.address, got)
				}
				if e, ok := j.event(); !ok || e.Rule != refused.rule || e.Source != bpf.Packet {
					t.Errorf("outside the group: %s %s: event %+v, want rule %s", network, refused.address, e, refused.rule)
				}
				drain(j)
			}
		}
		for _, addr := range []string{denied4, denied6, metadata4, metadata6} {
			for _, network := range []string{"tcp", "udp"} {
				if n := w.hitCount(network, addr); n != 0 {
					t.Errorf("%d %s arrived at %s", n, network, addr)
				}
			}
		}
		if s := must(w.egress.Stats(j.slot))(t); s.TxBytes == 0 || s.RxBytes == 0 || s.Denied == 0 {
			t.Errorf("counters %+v", s)
		}
	})
}

// drain forgets retransmissions of what was refused.
func drain(j *jail) {
	for {
		select {
		case <-j.events:
		case <-time.After(20 * time.Millisecond):
			return
		}
	}
}

func TestJailWithoutNetwork(t *testing.T) {
	hosttest.Netns(t, func() {
		w := newWorld(t, bpf.HookAuto)
		j := w.newJail("none", nil, nil)
		if got := j.dial("tcp", allowed4+":443", true); got.Errno != syscall.EPERM {
			t.Errorf("connect: %+v, want EPERM", got)
		}
		if e, ok := j.event(); !ok || e.Rule != "network.none" {
			t.Errorf("event %+v, want network.none", e)
		}
		if got := j.dial("tcp", "127.0.0.1:1", true); got.Errno != syscall.ECONNREFUSED {
			t.Errorf("connect to loopback: %+v, want ECONNREFUSED", got)
		}
	})
}
