package netns

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// datagram is a UDP packet to port 443 as a frame of a jail's eth0.
func datagram(srcMAC, dstMAC net.HardwareAddr, src, dst netip.Addr) []byte {
	udp := make([]byte, 8, 16)
	binary.BigEndian.PutUint16(udp, 5000)
	binary.BigEndian.PutUint16(udp[2:], 443)
	udp = append(udp, "hello"...)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp))) // no checksum, which IPv4 permits
	ip := make([]byte, 20)
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
	copy(ip[12:], src.AsSlice())
	copy(ip[16:], dst.AsSlice())
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	out := append(append([]byte{}, dstMAC...), srcMAC...)
	out = binary.BigEndian.AppendUint16(out, unix.ETH_P_IP)
	return append(append(out, ip...), udp...)
}

// inject writes frames to the jail's eth0 as somebody with CAP_NET_RAW in there would.
func (j *jail) inject(frames ...[]byte) {
	in(j.t, j.ns, func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			j.t.Error(err)
			return
		}
		defer unix.Close(fd)
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			j.t.Error(err)
			return
		}
		for _, f := range frames {
			check(j.t, unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: eth0.Index}))
		}
	})
}

func eventually(fn func() bool) bool {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if fn() {
			return true
		}
	}
	return false
}

func TestForgedFramesAreDropped(t *testing.T) {
	eachHook(t, func(t *testing.T, hook bpf.Hook) {
		w := newWorld(t, hook)
		j, victim := w.newJail("open", nil, nil), w.newJail("open", nil, nil)
		dst, node := netip.MustParseAddr(allowed4), netip.MustParseAddr(node4)
		own, mac, gateway := j.link.Addr4, j.link.JailMAC, j.link.NodeMAC
		arp := append(append(append([]byte{}, bytes.Repeat([]byte{255}, 6)...), mac...), 0x08, 0x06)
		forged := [][]byte{
			datagram(mac, gateway, victim.link.Addr4, dst),
			datagram(mac, gateway, node, dst),
			datagram(victim.link.JailMAC, gateway, own, dst),
			datagram(mac, bytes.Repeat([]byte{255}, 6), own, dst),
			append(arp, make([]byte, 46)...),
		}
		j.inject(forged...)
		if s := must(w.egress.Stats(j.slot))(t); s.TxDropped < uint64(len(forged)) || s.TxPackets != 0 {
			t.Errorf("counters %+v, want %d drops", s, len(forged))
		}
		if n := w.hitCount("udp", allowed4); n != 0 {
			t.Errorf("%d forged datagrams arrived", n)
		}
		j.inject(datagram(mac, gateway, own, dst)) // the same without the lie
		if !eventually(func() bool { return w.hitCount("udp", allowed4) == 1 }) {
			t.Error("an honest datagram did not arrive")
		}
	})
}

func TestNobodyOpensAConnectionIntoAJail(t *testing.T) {
	eachHook(t, func(t *testing.T, hook bpf.Hook) {
		w := newWorld(t, hook)
		j := w.newJail("open", nil, nil)
		received := make(chan struct{}, 16)
		in(t, j.ns, func() {
			l := must(net.Listen("tcp", ":7000"))(t)
			u := must(net.ListenPacket("udp", ":7000"))(t)
			t.Cleanup(func() { l.Close(); u.Close() })
			go func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					c.Close()
					received <- struct{}{}
				}
			}()
			go func() {
				b := make([]byte, 10)
				for _, _, err := u.ReadFrom(b); err == nil; _, _, err = u.ReadFrom(b) {
					received <- struct{}{}
				}
			}()
		})
		// The outside knows the way, as a neighbour on the node's network may.
		check(t, w.outside.route.RouteAdd(&netlink.Route{Dst: host(j.link.Addr4), Gw: net.ParseIP(node4)}))
		try := func() {
			for _, addr := range []netip.Addr{j.link.Addr4, j.link.Addr6} {
				to := netip.AddrPortFrom(addr, 7000).String()
				if c, err := net.DialTimeout("tcp", to, 300*time.Millisecond); err == nil {
					c.Close()
					t.Errorf("connected to %s", to)
				}
				if c, err := net.Dial("udp", to); err == nil {
					c.Write([]byte("x"))
					c.Close()
				}
			}
		}
		try() // from the node, past which no forward rule stands
		in(t, w.outside, try)
		select {
		case <-received:
			t.Error("something arrived in the jail")
		case <-time.After(50 * time.Millisecond):
		}
		if s := must(w.egress.Stats(j.slot))(t); s.RxDropped < 4 || s.RxPackets != 0 {
			t.Errorf("counters %+v, want drops", s)
		}
	})
}

// roundTrip sends n bytes from the jail and wants them back.
func (j *jail) roundTrip(network, address string, n int) {
	j.t.Helper()
	in(j.t, j.ns, func() {
		c, err := net.DialTimeout(network, address, 2*time.Second)
		if err != nil {
			j.t.Error(err)
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		go c.Write(bytes.Repeat([]byte("x"), n))
		b := make([]byte, n)
		if network == "udp" {
			n, err = c.Read(b)
		} else {
			_, err = io.ReadFull(c, b)
		}
		if err != nil || n != len(b) {
			j.t.Errorf("%s %s: %d bytes of %d came back: %v", network, address, n, len(b), err)
		}
	})
}

func TestBigDatagramsAndSmallPaths(t *testing.T) {
	eachHook(t, func(t *testing.T, hook bpf.Hook) {
		w := newWorld(t, hook)
		j := w.newJail("open", nil, nil)
		for _, a := range []string{allowed4 + ":443", "[" + allowed6 + "]:443"} {
			j.roundTrip("udp", a, 9000)
		}
		check(t, netlink.LinkSetMTU(must(netlink.LinkByName("up0"))(t), 1400))
		check(t, w.outside.route.LinkSetMTU(must(w.outside.route.LinkByName("down0"))(t), 1400))
		for _, a := range []string{allowed4 + ":443", "[" + allowed6 + "]:443"} {
			j.roundTrip("tcp", a, 200_000)
		}
	})
}

func TestFirstIPv6ConnectIsQuick(t *testing.T) {
	hosttest.Netns(t, func() {
		w := newWorld(t, bpf.HookAuto)
		for range 5 {
			j := w.newJail("open", nil, nil)
			if got := j.dial("tcp", "["+allowed6+"]:443", true); !got.Echoed || got.Micros > hosttest.Slow(50*time.Millisecond).Microseconds() {
				t.Errorf("%+v, want an echo within 50 ms of a normal machine", got)
			}
		}
	})
}

func TestFirstInstructionIsJudged(t *testing.T) {
	hosttest.Netns(t, func() {
		w := newWorld(t, bpf.HookAuto)
		for range 30 {
			j := w.newJail("allow", []string{allowed4}, nil)
			if got := j.dial("tcp", denied4+":443", true); got.Errno != syscall.EPERM {
				t.Errorf("%+v, want EPERM", got)
			}
		}
		if n := w.hitCount("tcp", denied4); n != 0 {
			t.Errorf("%d connections arrived", n)
		}
	})
}

func TestTighterPolicyCutsAnOpenConnection(t *testing.T) {
	eachHook(t, func(t *testing.T, hook bpf.Hook) {
		w := newWorld(t, hook)
		j := w.newJail("allow", []string{allowed4}, nil)
		tight, release, err := w.egress.SetPolicy(must(ParsePolicy("allow", []string{denied4}, nil))(t))
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		var c net.Conn
		in(t, j.ns, func() { c = must(net.Dial("tcp", allowed4+":443"))(t) })
		defer c.Close()
		echo := func() error {
			c.SetDeadline(time.Now().Add(500 * time.Millisecond))
			if _, err := c.Write([]byte("x")); err != nil {
				return err
			}
			_, err := io.ReadFull(c, make([]byte, 1))
			return err
		}
		check(t, echo())
		j.bindVeth(w.egress, tight)
		if err := echo(); err == nil {
			t.Error("the connection still works")
		}
	})
}

func (j *jail) bindVeth(e *bpf.Egress, policy uint32) {
	l := j.link
	check(j.t, e.BindVeth(bpf.Veth{
		Ifindex: l.Ifindex, Slot: j.slot, Policy: policy, Addr4: l.Addr4, Addr6: l.Addr6, JailMAC: l.JailMAC, NodeMAC: l.NodeMAC,
	}))
}

func TestAgentRestartLeavesOneProgramAHook(t *testing.T) {
	eachHook(t, func(t *testing.T, hook bpf.Hook) {
		w := newWorld(t, hook)
		j := w.newJail("allow", []string{allowed4}, nil)
		for range 5 {
			next, err := bpf.Load(bpf.Options{Cgroup: w.parent, Hook: hook, Node: w.manager.Pools()})
			if err != nil {
				t.Fatal(err)
			}
			id, release, err := next.SetPolicy(must(ParsePolicy("allow", []string{allowed4}, nil))(t))
			if err != nil {
				t.Fatal(err)
			}
			j.bindVeth(next, id)
			check(t, next.Close())
			if got := j.dial("tcp", allowed4+":443", true); !got.Echoed {
				t.Errorf("allowed: %+v", got)
			}
			if got := j.dial("tcp", denied4+":443", false); got.Errno == 0 {
				t.Errorf("denied: %+v", got)
			}
			_ = release // an agent that was killed releases nothing
		}
		if in, out := programsOn(t, hook, j.link); in != 1 || out != 1 {
			t.Errorf("%d programs on ingress and %d on egress, want one each", in, out)
		}
	})
}

func programsOn(t *testing.T, hook bpf.Hook, l *Link) (ingress, egress int) {
	t.Helper()
	if hook == bpf.HookTCX {
		in := must(link.QueryPrograms(link.QueryOptions{Target: l.Ifindex, Attach: ebpf.AttachTCXIngress}))(t)
		out := must(link.QueryPrograms(link.QueryOptions{Target: l.Ifindex, Attach: ebpf.AttachTCXEgress}))(t)
		return len(in.Programs), len(out.Programs)
	}
	device := must(netlink.LinkByIndex(l.Ifindex))(t)
	in := must(netlink.FilterList(device, netlink.HANDLE_MIN_INGRESS))(t)
	out := must(netlink.FilterList(device, netlink.HANDLE_MIN_EGRESS))(t)
	return len(in), len(out)
}

// BenchmarkBindVeth is what a job pays for package bpf: a shared policy, its control group, and its veth.
func BenchmarkBindVeth(b *testing.B) {
	for _, hook := range []bpf.Hook{bpf.HookTCX, bpf.HookClsact} {
		b.Run(string(hook), func(b *testing.B) {
			hosttest.Netns(b, func() {
				w := newWorld(b, hook)
				policy := must(ParsePolicy("allow", []string{allowed4}, nil))(b)
				for b.Loop() {
					b.StopTimer()
					ns := must(New())(b)
					l := must(w.manager.Connect(ns, unguarded))(b)
					b.StartTimer()
					id, release, err := w.egress.SetPolicy(policy)
					if err != nil {
						b.Fatal(err)
					}
					check(b, w.egress.BindCgroup(bpf.Job{Cgroup: 1, Slot: 1, Policy: id}))
					check(b, w.egress.BindVeth(bpf.Veth{
						Ifindex: l.Ifindex, Slot: 1, Policy: id, Addr4: l.Addr4, Addr6: l.Addr6, JailMAC: l.JailMAC, NodeMAC: l.NodeMAC,
					}))
					b.StopTimer()
					check(b, w.egress.UnbindCgroup(1))
					check(b, w.egress.UnbindVeth(l.Ifindex))
					check(b, release())
					check(b, ns.Close())
					b.StartTimer()
				}
			})
		})
	}
}
