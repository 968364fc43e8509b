package bpf

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

var (
	testJailMAC = net.HardwareAddr{2, 't', 'b', 'j', 0, 1}
	testNodeMAC = net.HardwareAddr{2, 't', 'b', 'n', 0, 1}
	testJail4   = netip.MustParseAddr("198.19.0.1")
	testJail6   = netip.MustParseAddr("fd74:6f6c:6c62::1")
)

// frame describes a packet; the zero fields are what an honest jail sends.
type frame struct {
	src, dst       string
	proto          uint8
	sport, dport   uint16 // ICMP: sport is the echo id
	tcpFlags       uint8
	icmpType       uint8
	srcMAC, dstMAC net.HardwareAddr
	etherType      uint16
	fragment       uint16 // offset in 8 bytes, with moreFragments
	fragmentID     uint32
	options        bool // IPv4: an options word. IPv6: a hop-by-hop header
	quoted         string
	cut            int // bytes taken off the end
	inbound        bool
}

const (
	moreFragments = 0x8000
	syn, ack      = 2, 16
)

func (f frame) bytes() []byte {
	src, dst := netip.MustParseAddr(f.src), netip.MustParseAddr(f.dst)
	from, to := testJailMAC, testNodeMAC
	if f.inbound {
		from, to = to, from
	}
	if f.srcMAC != nil {
		from = f.srcMAC
	}
	if f.dstMAC != nil {
		to = f.dstMAC
	}
	etherType := uint16(unix.ETH_P_IP)
	if src.Is6() {
		etherType = unix.ETH_P_IPV6
	}
	if f.etherType != 0 {
		etherType = f.etherType
	}
	out := append(append([]byte{}, to...), from...)
	out = binary.BigEndian.AppendUint16(out, etherType)
	payload := f.transport()
	if src.Is4() {
		out = append(out, f.ipv4(src, dst, len(payload))...)
	} else {
		out = append(out, f.ipv6(src, dst, len(payload))...)
	}
	out = append(out, payload...)
	return out[:len(out)-f.cut]
}

func (f frame) ipv4(src, dst netip.Addr, payload int) []byte {
	ip := make([]byte, 20)
	ip[0] = 0x45
	if f.options {
		ip = append(ip, 1, 1, 1, 0)
		ip[0] = 0x46
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+payload))
	binary.BigEndian.PutUint16(ip[4:], uint16(f.fragmentID))
	offset := f.fragment &^ moreFragments
	if f.fragment&moreFragments != 0 {
		offset |= 0x2000
	}
	binary.BigEndian.PutUint16(ip[6:], offset)
	ip[8], ip[9] = 64, f.proto
	copy(ip[12:], src.AsSlice())
	copy(ip[16:], dst.AsSlice())
	return ip
}

func (f frame) ipv6(src, dst netip.Addr, payload int) []byte {
	ip := make([]byte, 40)
	ip[0], ip[6], ip[7] = 0x60, f.proto, 64
	copy(ip[8:], src.AsSlice())
	copy(ip[24:], dst.AsSlice())
	if f.options {
		ip = append(ip, f.proto, 0, 1, 4, 0, 0, 0, 0)
		ip[6] = 0
	}
	if f.fragment != 0 {
		header := make([]byte, 8)
		header[0], ip[6] = f.proto, unix.IPPROTO_FRAGMENT
		offset := f.fragment &^ moreFragments << 3
		if f.fragment&moreFragments != 0 {
			offset |= 1
		}
		binary.BigEndian.PutUint16(header[2:], offset)
		binary.BigEndian.PutUint32(header[4:], f.fragmentID)
		ip = append(ip, header...)
	}
	binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-40+payload))
	return ip
}

func (f frame) transport() []byte {
	out := make([]byte, 64)
	switch f.proto {
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		out[0] = f.icmpType
		binary.BigEndian.PutUint16(out[4:], f.sport)
		if f.quoted != "" {
			a := netip.MustParseAddr(f.quoted)
			if a.Is4() {
				copy(out[8+12:], a.AsSlice())
			} else {
				copy(out[8+8:], a.AsSlice())
			}
		}
	default:
		binary.BigEndian.PutUint16(out[0:], f.sport)
		binary.BigEndian.PutUint16(out[2:], f.dport)
		if f.proto == unix.IPPROTO_TCP {
			out[12], out[13] = 5<<4, f.tcpFlags
		}
	}
	return out
}

// skbContext is the head of struct __sk_buff, up to ifindex.
type skbContext struct {
	Len, PktType, Mark, QueueMapping, Protocol, VlanPresent, VlanTci, VlanProto, Priority, IngressIfindex, Ifindex uint32
	TCIndex                                                                                                        uint32
	CB                                                                                                             [5]uint32
	Rest                                                                                                           [30]uint32
}

// run passes a frame through a program as if it were on the loopback device, whose index is 1.
func (e *Egress) run(t testing.TB, f frame) bool {
	t.Helper()
	program := e.objects.TbFromJail
	if f.inbound {
		program = e.objects.TbToJail
	}
	verdict, err := program.Run(&ebpf.RunOptions{Data: f.bytes(), Context: skbContext{Ifindex: 1}})
	if err != nil {
		t.Fatalf("run %+v: %v", f, err)
	}
	switch int32(verdict) {
	case -1:
		return true
	case 2:
		return false
	}
	t.Fatalf("run %+v: unexpected verdict %d", f, int32(verdict))
	return false
}

// bindLoopback makes the loopback device a jail's veth as far as the maps are concerned.
func bindLoopback(t testing.TB, e *Egress, slot uint32, p Policy) (release func()) {
	t.Helper()
	id, drop, err := e.SetPolicy(p)
	if err != nil {
		t.Fatal(err)
	}
	entry := egressVeth{
		Policy: id, Slot: slot, Addr4: addrOf(testJail4), Addr6: addrOf(testJail6),
		JailMac: [6]uint8(testJailMAC), NodeMac: [6]uint8(testNodeMAC),
	}
	if err := e.objects.TbVeths.Put(uint32(1), entry); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	}
}

const (
	j4, j6 = "198.19.0.1", "fd74:6f6c:6c62::1"
	tcp    = unix.IPPROTO_TCP
	udp    = unix.IPPROTO_UDP
	icmp   = unix.IPPROTO_ICMP
	icmp6  = unix.IPPROTO_ICMPV6
)

func TestPacketVerdicts(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{Node: []netip.Prefix{netip.MustParsePrefix("198.19.0.0/16"), netip.MustParsePrefix("10.9.0.0/16")}})
		release := bindLoopback(t, e, 3, Policy{
			Mode: ModeAllow,
			Allow: []Rule{
				rule("0.0.0.0/0", 443, 443, TCP|UDP), rule("203.0.113.0/24", 0, 65535, AllProtocols),
				rule("2001:db8::/32", 443, 443, TCP|UDP), rule("2001:db8:5::/48", 0, 65535, ICMP), rule("::/0", 8443, 8443, TCP),
			},
			Deny: []Rule{rule("203.0.113.66/32", 0, 65535, AllProtocols)},
		})
		defer release()
		for _, c := range []struct {
			name  string
			frame frame
			pass  bool
			rule  string // of the event; "": none
		}{
			{"allowed tcp", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, tcpFlags: syn}, true, ""},
			{"allowed tcp6", frame{src: j6, dst: "2001:db8::1", proto: tcp, dport: 443, tcpFlags: syn}, true, ""},
			{"other port", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 80, tcpFlags: syn}, false, "network.default"},
			{"other port, not opening", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 80, tcpFlags: ack}, false, ""},
			{"denied", frame{src: j4, dst: "203.0.113.66", proto: tcp, dport: 443, tcpFlags: syn}, false, "network.deny"},
			{"denied udp", frame{src: j4, dst: "203.0.113.66", proto: udp, dport: 443}, false, "network.deny"},
			{"denied ping", frame{src: j4, dst: "203.0.113.66", proto: icmp, icmpType: 8}, false, "network.deny"},
			{"metadata", frame{src: j4, dst: "169.254.169.254", proto: tcp, dport: 443, tcpFlags: syn}, false, "network.metadata"},
			{"metadata udp", frame{src: j4, dst: "169.254.169.254", proto: udp, dport: 443}, false, "network.metadata"},
			{"metadata6", frame{src: j6, dst: "fd00:ec2::254", proto: tcp, dport: 8443, tcpFlags: syn}, false, "network.metadata"},
			{"nat64 metadata", frame{src: j6, dst: "64:ff9b::a9fe:a9fe", proto: tcp, dport: 8443, tcpFlags: syn}, false, "network.metadata"},
			{"nat64 node", frame{src: j6, dst: "64:ff9b::a09:1", proto: tcp, dport: 8443, tcpFlags: syn}, false, "network.node"},
			{"nat64 denied", frame{src: j6, dst: "64:ff9b::cb00:7142", proto: tcp, dport: 8443, tcpFlags: syn}, false, "network.deny"},
			{"nat64 allowed by its IPv4", frame{src: j6, dst: "64:ff9b::102:304", proto: tcp, dport: 443, tcpFlags: syn}, true, ""},
			{"nat64 allowed by its IPv6", frame{src: j6, dst: "64:ff9b::102:304", proto: tcp, dport: 8443, tcpFlags: syn}, true, ""},
			{"nat64 default", frame{src: j6, dst: "64:ff9b::102:304", proto: tcp, dport: 80, tcpFlags: syn}, false, "network.default"},
			{"node", frame{src: j4, dst: "10.9.1.1", proto: tcp, dport: 443, tcpFlags: syn}, false, "network.node"},
			{"sibling", frame{src: j4, dst: "198.19.0.2", proto: tcp, dport: 443, tcpFlags: syn}, false, "network.node"},
			{"multicast", frame{src: j4, dst: "224.0.0.251", proto: udp, dport: 443}, false, "network.node"},
			{"multicast6", frame{src: j6, dst: "ff02::1", proto: udp, dport: 8443}, false, "network.node"},
			{"broadcast", frame{src: j4, dst: "255.255.255.255", proto: udp, dport: 443}, false, "network.node"},
			{"loopback on the wire", frame{src: j4, dst: "127.0.0.1", proto: tcp, dport: 443, tcpFlags: syn}, false, "network.node"},
			{"6to4", frame{src: j6, dst: "2002:a9fe:a9fe::1", proto: tcp, dport: 8443, tcpFlags: syn}, false, "network.node"},
			{"ping allowed", frame{src: j4, dst: "203.0.113.1", proto: icmp, icmpType: 8, sport: 7}, true, ""},
			{"ping not allowed", frame{src: j4, dst: "1.2.3.4", proto: icmp, icmpType: 8}, false, "network.default"},
			{"ping6 allowed", frame{src: j6, dst: "2001:db8:5::1", proto: icmp6, icmpType: 128}, true, ""},
			{"icmp timestamp", frame{src: j4, dst: "203.0.113.1", proto: icmp, icmpType: 13}, false, ""},
			{"icmp echo reply out", frame{src: j4, dst: "203.0.113.1", proto: icmp, icmpType: 0}, false, ""},
			{"icmp redirect out", frame{src: j4, dst: "203.0.113.1", proto: icmp, icmpType: 5}, false, ""},
			{"router solicitation", frame{src: j6, dst: "ff02::2", proto: icmp6, icmpType: 133}, false, ""},
			{"neighbour advertisement", frame{src: j6, dst: "2001:db8:5::1", proto: icmp6, icmpType: 136}, false, ""},
			{"icmp6 in ipv4", frame{src: j4, dst: "203.0.113.1", proto: icmp6, icmpType: 128}, false, ""},
			{"sctp", frame{src: j4, dst: "203.0.113.1", proto: unix.IPPROTO_SCTP, dport: 443}, false, ""},
			{"gre", frame{src: j4, dst: "203.0.113.1", proto: unix.IPPROTO_GRE}, false, ""},
			{"ipip", frame{src: j4, dst: "203.0.113.1", proto: unix.IPPROTO_IPIP}, false, ""},
			{"spoofed source", frame{src: "198.19.0.2", dst: "1.2.3.4", proto: tcp, dport: 443, tcpFlags: syn}, false, ""},
			{"spoofed source6", frame{src: "fd74:6f6c:6c62::2", dst: "2001:db8::1", proto: tcp, dport: 443, tcpFlags: syn}, false, ""},
			{"spoofed hardware address", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, tcpFlags: syn, srcMAC: testNodeMAC}, false, ""},
			{"broadcast frame", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, dstMAC: net.HardwareAddr{255, 255, 255, 255, 255, 255}}, false, ""},
			{"mapped in a packet", frame{src: j6, dst: "::ffff:1.2.3.4", proto: tcp, dport: 443, tcpFlags: syn}, false, ""},
			{"arp", frame{src: j4, dst: "1.2.3.4", etherType: unix.ETH_P_ARP}, false, ""},
			{"vlan", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, etherType: unix.ETH_P_8021Q}, false, ""},
			{"mpls", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, etherType: unix.ETH_P_MPLS_UC}, false, ""},
			{"ipv4 frame called ipv6", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, etherType: unix.ETH_P_IPV6}, false, ""},
			{"ip options", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, tcpFlags: syn, options: true}, false, ""},
			{"extension header", frame{src: j6, dst: "2001:db8::1", proto: tcp, dport: 443, tcpFlags: syn, options: true}, false, ""},
			{"cut in the transport header", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, cut: 60}, false, ""},
			{"cut udp", frame{src: j4, dst: "1.2.3.4", proto: udp, dport: 443, cut: 57}, false, ""},
			{"fragmented tcp", frame{src: j4, dst: "1.2.3.4", proto: tcp, dport: 443, fragment: moreFragments, tcpFlags: syn}, false, ""},
			{"later fragment alone", frame{src: j4, dst: "1.2.3.4", proto: udp, fragment: 1, fragmentID: 77}, false, ""},
			{"first fragment", frame{src: j4, dst: "1.2.3.4", proto: udp, dport: 443, fragment: moreFragments, fragmentID: 78}, true, ""},
			{"its later fragment", frame{src: j4, dst: "1.2.3.4", proto: udp, fragment: 8, fragmentID: 78}, true, ""},
			{"later fragment to elsewhere", frame{src: j4, dst: "1.2.3.5", proto: udp, fragment: 8, fragmentID: 78}, false, ""},
			{"first fragment6", frame{src: j6, dst: "2001:db8::1", proto: udp, dport: 443, fragment: moreFragments, fragmentID: 79}, true, ""},
			{"its later fragment6", frame{src: j6, dst: "2001:db8::1", proto: udp, fragment: 8, fragmentID: 79}, true, ""},
			{"denied first fragment", frame{src: j4, dst: "1.2.3.4", proto: udp, dport: 53, fragment: moreFragments, fragmentID: 80}, false, "network.default"},
			{"its later fragment is denied too", frame{src: j4, dst: "1.2.3.4", proto: udp, fragment: 8, fragmentID: 80}, false, ""},

			{"reply", frame{inbound: true, src: "1.2.3.4", dst: j4, proto: tcp, sport: 443, tcpFlags: syn | ack}, true, ""},
			{"reply6", frame{inbound: true, src: "2001:db8::1", dst: j6, proto: tcp, sport: 443, tcpFlags: ack}, true, ""},
			{"connection into the jail", frame{inbound: true, src: "1.2.3.4", dst: j4, proto: tcp, sport: 443, tcpFlags: syn}, false, ""},
			{"reply from a port that is not allowed", frame{inbound: true, src: "1.2.3.4", dst: j4, proto: tcp, sport: 80, tcpFlags: ack}, false, ""},
			{"reply from the node", frame{inbound: true, src: "10.9.1.1", dst: j4, proto: tcp, sport: 443, tcpFlags: ack}, false, ""},
			{"reply to another jail", frame{inbound: true, src: "1.2.3.4", dst: "198.19.0.2", proto: tcp, sport: 443, tcpFlags: ack}, false, ""},
			{"unsolicited udp", frame{inbound: true, src: "1.2.3.4", dst: j4, proto: udp, sport: 443, dport: 5000}, false, ""},
			{"udp out", frame{src: j4, dst: "1.2.3.4", proto: udp, sport: 5000, dport: 443}, true, ""},
			{"udp reply", frame{inbound: true, src: "1.2.3.4", dst: j4, proto: udp, sport: 443, dport: 5000}, true, ""},
			{"udp reply to another port", frame{inbound: true, src: "1.2.3.4", dst: j4, proto: udp, sport: 443, dport: 5001}, false, ""},
			{"echo reply", frame{inbound: true, src: "203.0.113.1", dst: j4, proto: icmp, icmpType: 0, sport: 7}, true, ""},
			{"unsolicited echo reply", frame{inbound: true, src: "203.0.113.1", dst: j4, proto: icmp, icmpType: 0, sport: 8}, false, ""},
			{"echo request into the jail", frame{inbound: true, src: "203.0.113.1", dst: j4, proto: icmp, icmpType: 8, sport: 7}, false, ""},
			{"fragmentation needed", frame{inbound: true, src: "9.9.9.9", dst: j4, proto: icmp, icmpType: 3, quoted: j4}, true, ""},
			{"fragmentation needed for somebody else", frame{inbound: true, src: "9.9.9.9", dst: j4, proto: icmp, icmpType: 3, quoted: "198.19.0.2"}, false, ""},
			{"packet too big", frame{inbound: true, src: "2001:db8:9::1", dst: j6, proto: icmp6, icmpType: 2, quoted: j6}, true, ""},
			{"router advertisement", frame{inbound: true, src: "fe80::1", dst: j6, proto: icmp6, icmpType: 134}, false, ""},
			{"redirect", frame{inbound: true, src: "9.9.9.9", dst: j4, proto: icmp, icmpType: 5, quoted: j4}, false, ""},
		} {
			if got := e.run(t, c.frame); got != c.pass {
				t.Errorf("%s: pass is %v, want %v", c.name, got, c.pass)
			}
			checkEvent(t, e, c.name, c.frame, c.rule)
		}
		stats, err := e.Stats(3)
		if err != nil {
			t.Fatal(err)
		}
		if stats.TxPackets != 11 || stats.RxPackets != 6 || stats.TxDropped == 0 || stats.RxDropped == 0 || stats.TxBytes < 11*64 {
			t.Errorf("counters %+v", stats)
		}
		// Replacing the policy forgets flows: what may no longer be asked may no longer answer.
		defer bindLoopback(t, e, 3, Policy{Mode: ModeAllow})()
		if e.run(t, frame{inbound: true, src: "1.2.3.4", dst: j4, proto: udp, sport: 443, dport: 5000}) {
			t.Error("a reply passed under a policy that forbids its question")
		}
		// A veth that no job is bound to passes nothing.
		if err := e.UnbindVeth(1); err != nil {
			t.Fatal(err)
		}
		if e.run(t, frame{src: j4, dst: "203.0.113.1", proto: tcp, dport: 443, tcpFlags: syn}) {
			t.Error("an unbound veth passed a packet")
		}
	})
}

func checkEvent(t *testing.T, e *Egress, name string, f frame, rule string) {
	t.Helper()
	wait := time.Second
	if rule == "" {
		wait = 0 // a late event would be found by the next row that expects one
	}
	select {
	case got := <-e.Events():
		want := netip.MustParseAddr(f.dst)
		if got.Rule != rule || got.Addr != want || got.Proto != f.proto || got.Slot != 3 || got.Source != Packet || got.Count != 1 ||
			f.proto != icmp && got.Port != f.dport {
			t.Errorf("%s: event %+v, want rule %q", name, got, rule)
		}
	case <-time.After(wait):
		if rule != "" {
			t.Errorf("%s: no event, want rule %q", name, rule)
		}
	}
}

// BenchmarkVerdict lets the kernel repeat a program; its own time for one run is what is reported.
func BenchmarkVerdict(b *testing.B) {
	hosttest.Netns(b, func() {
		e := load(b, Options{MaxRules: 10000})
		for _, rules := range []int{10, 1000, 10000} {
			release := bindLoopback(b, e, 1, manyRules(rules))
			n := rules - 1
			last := netip.AddrFrom4([4]byte{203, byte(n >> 14), byte(n >> 6), byte(n<<2) | 1}).String()
			for _, c := range []struct {
				name  string
				frame frame
			}{
				{"allowed", frame{src: j4, dst: last, proto: tcp, dport: 443, tcpFlags: ack}},
				{"refused", frame{src: j4, dst: "9.9.9.9", proto: tcp, dport: 443, tcpFlags: ack}},
				{"reply", frame{inbound: true, src: last, dst: j4, proto: tcp, sport: 443, tcpFlags: ack}},
			} {
				b.Run(fmt.Sprintf("%s/%d", c.name, rules), func(b *testing.B) {
					program := e.objects.TbFromJail
					if c.frame.inbound {
						program = e.objects.TbToJail
					}
					o := &ebpf.RunOptions{Data: c.frame.bytes(), Context: skbContext{Ifindex: 1}, Repeat: uint32(b.N)}
					if _, err := program.Run(o); err != nil {
						b.Fatal(err)
					}
				})
			}
			release()
		}
	})
}

// TestBudget: packets of both directions are counted together, the one that is too many is dropped and named, and so is
// every later one, however small, until the budget is larger.
func TestBudget(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{})
		defer bindLoopback(t, e, 3, Policy{Mode: ModeOpen})()
		var veth egressVeth
		if err := e.objects.TbVeths.Lookup(uint32(1), &veth); err != nil {
			t.Fatal(err)
		}
		if err := e.objects.TbSlots.Put(uint32(3), egressSlot{}); err != nil {
			t.Fatal(err)
		}
		out := frame{src: j4, dst: "203.0.113.9", proto: tcp, sport: 4000, dport: 443, tcpFlags: syn}
		in := frame{src: "203.0.113.9", dst: j4, proto: tcp, sport: 443, dport: 4000, tcpFlags: syn | ack, inbound: true}
		small := frame{src: j4, dst: "203.0.113.9", proto: udp, sport: 4000, dport: 443}
		size := uint64(len(out.bytes()))
		budget := func(bytes uint64) {
			t.Helper()
			veth.Budget = bytes
			if err := e.objects.TbVeths.Put(uint32(1), veth); err != nil {
				t.Fatal(err)
			}
		}
		budget(3 * size)
		for i, f := range []frame{out, in, out} {
			if !e.run(t, f) {
				t.Fatalf("packet %d was dropped within the budget", i)
			}
		}
		for _, f := range []frame{out, in, small} {
			if e.run(t, f) {
				t.Errorf("%+v passed beyond the budget", f)
			}
			event := <-e.Events()
			if event.Rule != "network.budget" || event.Addr.String() != "203.0.113.9" || event.Port != 443 {
				t.Errorf("event %+v", event)
			}
		}
		c, err := e.Stats(3)
		if err != nil || c.TxBytes+c.RxBytes != 3*size || c.TxDropped+c.RxDropped != 3 || c.Spent != 3*size {
			t.Errorf("counters %+v %v", c, err)
		}
		budget(5 * size)
		if !e.run(t, out) || !e.run(t, in) || e.run(t, out) {
			t.Error("a larger budget did not let two more packets pass")
		}
		budget(0)
		if !e.run(t, out) {
			t.Error("no budget dropped a packet")
		}
	})
}
