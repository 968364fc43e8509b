package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// Cut ends the TCP connections and the connected UDP sockets in the namespace whose far end is not allowed: their
// owners are told ECONNABORTED at once, where dropped packets would leave them waiting. It returns how many it ended. Call it
// once the policy is in force, so that no new ones come. The kernel needs CONFIG_INET_DIAG_DESTROY; without it the error
// is EOPNOTSUPP, and the packets are dropped all the same.
func (n *Namespace) Cut(allowed func(netip.Addr, uint16, bpf.Protocols) bool) (int, error) {
	count := 0
	err := onOtherThread(func() (restored bool, err error) {
		home, err := currentNamespace()
		if err != nil {
			return true, err
		}
		defer home.Close()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return true, fmt.Errorf("setns: %w", err)
		}
		count, err = cut(allowed)
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			return false, errors.Join(err, fmt.Errorf("setns back: %w", back))
		}
		return true, err
	})
	if err != nil {
		return count, fmt.Errorf("cut connections: %w", err)
	}
	return count, nil
}

// cut does it in the calling thread's namespace.
func cut(allowed func(netip.Addr, uint16, bpf.Protocols) bool) (int, error) {
	diag, err := netlink.NewHandle(unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, fmt.Errorf("open a socket diagnosis socket: %w", err)
	}
	defer diag.Close()
	count := 0
	for _, of := range []struct {
		protocol uint8
		bit      bpf.Protocols
		list     func(family uint8) ([]*netlink.Socket, error)
	}{{unix.IPPROTO_TCP, bpf.TCP, diag.SocketDiagTCP}, {unix.IPPROTO_UDP, bpf.UDP, diag.SocketDiagUDP}} {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			sockets, err := whole(func() ([]*netlink.Socket, error) { return of.list(family) })
			if err != nil {
				return count, fmt.Errorf("list sockets: %w", err)
			}
			for _, s := range sockets {
				if !connected(s) || toItself(s) || allowed(remote(s), s.ID.DestinationPort, of.bit) {
					continue
				}
				err := destroy(s, of.protocol)
				if errors.Is(err, unix.ENOENT) {
					continue // it ended by itself
				}
				if err != nil {
					return count, fmt.Errorf("end the connection to %s: %w", remote(s), err)
				}
				count++
			}
		}
	}
	return count, nil
}

// connected says whether the socket has a far end that it still talks to. The states are those of <net/tcp_states.h>, and a
// connected UDP socket is "established".
func connected(s *netlink.Socket) bool {
	const established, synSent, finWait1, finWait2, closeWait, lastAck, closing = 1, 2, 4, 5, 8, 9, 11
	return slices.Contains([]uint8{established, synSent, finWait1, finWait2, closeWait, lastAck, closing}, s.State)
}

func remote(s *netlink.Socket) netip.Addr {
	addr, _ := netip.AddrFromSlice(s.ID.Destination)
	return addr.Unmap()
}

// toItself says whether the jail talks to itself, which no policy forbids.
func toItself(s *netlink.Socket) bool {
	return remote(s).IsLoopback() || s.ID.Source.Equal(s.ID.Destination)
}

// destroy ends one socket. Its cookie makes sure that it is the one listed, and not a later one with the same addresses.
func destroy(s *netlink.Socket, protocol uint8) error {
	req := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	req.AddData(&socketID{s, protocol})
	_, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
	return err
}

// socketID is struct inet_diag_req_v2, which the library writes for lists only.
type socketID struct {
	socket   *netlink.Socket
	protocol uint8
}

// Len is the size of the structure.
func (q *socketID) Len() int { return 56 }

// Serialize writes it.
func (q *socketID) Serialize() []byte {
	id := q.socket.ID
	b := make([]byte, q.Len())
	b[0], b[1] = q.socket.Family, q.protocol
	nl.NativeEndian().PutUint32(b[4:], ^uint32(0)) // in any state
	b[8], b[9] = byte(id.SourcePort>>8), byte(id.SourcePort)
	b[10], b[11] = byte(id.DestinationPort>>8), byte(id.DestinationPort)
	copy(b[12:28], raw(q.socket.Family, id.Source))
	copy(b[28:44], raw(q.socket.Family, id.Destination))
	nl.NativeEndian().PutUint32(b[44:], id.Interface)
	nl.NativeEndian().PutUint32(b[48:], id.Cookie[0])
	nl.NativeEndian().PutUint32(b[52:], id.Cookie[1])
	return b
}

// raw is an address as the family writes it.
func raw(family uint8, ip []byte) []byte {
	addr, _ := netip.AddrFromSlice(ip)
	if family == unix.AF_INET {
		return addr.Unmap().AsSlice()
	}
	all := addr.As16()
	return all[:]
}
