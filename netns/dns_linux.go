package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// DNSAddress is where a jail's resolver listens: on the loopback of the jail's own namespace. There no port of the node has
// to be open to jails, no other server or firewall of the node is in the way, a jail without a network is answered too, and
// whoever asks is in that namespace. It is the address that programs ask when resolv.conf names none.
var DNSAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// dnsSockets are where a namespace's resolver is asked. They are opened with the namespace, while nobody waits.
type dnsSockets struct {
	udp net.PacketConn
	tcp net.Listener
}

// What a jail sends to its resolver and nobody has read yet is the agent's memory and not the jail's, so it is little: a
// question takes at most a few hundred bytes.
const (
	dnsBacklog = 32       // connections that wait to be accepted
	dnsStream  = 16 << 10 // bytes that wait on each
	dnsPackets = 128 << 10
)

// listenDNS opens them in the calling thread's namespace.
func listenDNS() (*dnsSockets, error) {
	at := netip.AddrPortFrom(DNSAddress, 53).String()
	listen := net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) error {
		size := dnsPackets
		if network == "tcp4" {
			size = dnsStream // accepted connections inherit it
		}
		return onSocket(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size) })
	}}
	udp, err := listen.ListenPacket(context.Background(), "udp4", at)
	if err != nil {
		return nil, fmt.Errorf("listen for lookups: %w", err)
	}
	tcp, err := listen.Listen(context.Background(), "tcp4", at)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for lookups: %w", err), udp.Close())
	}
	s := &dnsSockets{udp, tcp}
	// The library listens with the longest queue that the system allows; a second call shortens it.
	raw, err := tcp.(*net.TCPListener).SyscallConn()
	if err == nil {
		err = onSocket(raw, func(fd int) error { return unix.Listen(fd, dnsBacklog) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bound the queue of lookups: %w", err), s.close())
	}
	return s, nil
}

// onSocket runs fn on a socket's descriptor.
func onSocket(c syscall.RawConn, fn func(fd int) error) error {
	var err error
	if failed := c.Control(func(fd uintptr) { err = fn(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

func (s *dnsSockets) close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.udp.Close(), s.tcp.Close())
}

// TakeDNS hands out the sockets of the namespace's resolver, once. They hold the namespace: close them before it. No process
// of a jail can take the port, since that needs a capability over the namespace.
func (n *Namespace) TakeDNS() (net.PacketConn, net.Listener, error) {
	s := n.dns
	if s == nil {
		return nil, nil, errors.New("the namespace's resolver sockets are taken")
	}
	n.dns = nil
	return s.udp, s.tcp, nil
}

// inside runs fn on a thread in the namespace.
func (n *Namespace) inside(fn func() error) error {
	return onOtherThread(func() (restored bool, err error) {
		home, err := currentNamespace()
		if err != nil {
			return true, err
		}
		defer home.Close()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return true, fmt.Errorf("setns: %w", err)
		}
		err = fn()
		runtime.KeepAlive(n)
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			return false, errors.Join(err, fmt.Errorf("setns back: %w", back))
		}
		return true, err
	})
}
