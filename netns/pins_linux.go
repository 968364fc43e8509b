package netns

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// flowIdle is how long after its last packet a flow without a connection is over.
const flowIdle = 2 * time.Minute

// Pins are a jail's pins that know which of them are in use. Close it before the namespace.
type Pins struct {
	*bpf.Pins
	ns *Namespace

	mu   sync.Mutex
	diag *netlink.Handle // lists the sockets of the jail's namespace; nil until it is needed. Guarded by mu
}

// NewPins looks after pins of the jail in the namespace. It closes them.
func (n *Namespace) NewPins(p *bpf.Pins) *Pins { return &Pins{Pins: p, ns: n} }

// Busy reports whether a flow of the jail uses an address: a TCP connection, however long it has been silent, or packets of
// the last minutes.
func (p *Pins) Busy(a netip.Addr) (bool, error) {
	idle, err := p.Idle(a)
	if err != nil || idle < flowIdle {
		return err == nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.openDiag(); err != nil {
		return false, err
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := whole(func() ([]*netlink.Socket, error) { return p.diag.SocketDiagTCP(family) })
		if err != nil {
			return false, fmt.Errorf("list the jail's connections: %w", err)
		}
		if slices.ContainsFunc(sockets, func(s *netlink.Socket) bool { return connected(s) && remote(s) == a }) {
			return true, nil
		}
	}
	return false, nil
}

// openDiag is called with mu held.
func (p *Pins) openDiag() error {
	if p.diag != nil {
		return nil
	}
	err := p.ns.inside(func() (err error) {
		p.diag, err = netlink.NewHandle(unix.NETLINK_INET_DIAG)
		return err
	})
	if err != nil {
		return fmt.Errorf("open socket diagnostics in the jail's namespace: %w", err)
	}
	return nil
}

// Close removes the pins.
func (p *Pins) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.diag != nil {
		p.diag.Close()
	}
	return p.Pins.Close()
}
