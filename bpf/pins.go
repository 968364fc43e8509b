package bpf

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Pins are addresses that one job may reach beside its policy. A policy is shared by all jobs that ask for the same; what a
// job's resolver gave it is the job's own. What is reserved, and what a deny rule names, no pin opens. Close it.
type Pins struct {
	egress *Egress
	id     uint32
}

// NewPins makes an empty set, to bind a job's control group and veth with.
func (e *Egress) NewPins() *Pins {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := &Pins{egress: e, id: e.nextPins}
	e.nextPins++
	e.pins[p.id] = true
	return p
}

// ID is what Job.Pins and Veth.Pins take.
func (p *Pins) ID() uint32 { return p.id }

func (p *Pins) key(a netip.Addr) egressPinKey { return egressPinKey{Set: p.id, Addr: addrOf(a)} }

// Pin opens ports of an address, instead of those that it had open.
func (p *Pins) Pin(a netip.Addr, ports []Ports) error {
	spans := make([]span, len(ports))
	for i, r := range ports {
		spans[i] = span{low: r.Low, high: r.High, allow: r.Protocols}
	}
	list, err := portsOf(spans)
	if err != nil {
		return fmt.Errorf("pin %s: %w", a, err)
	}
	p.egress.mu.Lock()
	defer p.egress.mu.Unlock()
	entry := egressPin{Ports: list}
	var old egressPin
	if err := p.egress.objects.TbPins.Lookup(p.key(a), &old); err == nil {
		entry.Used = old.Used
	}
	if err := p.egress.objects.TbPins.Put(p.key(a), &entry); err != nil {
		return fmt.Errorf("pin %s: %w", a, err)
	}
	return nil
}

// Unpin closes an address again. Packets of connections that use it are dropped from then on.
func (p *Pins) Unpin(a netip.Addr) error {
	return ignoreMissing(p.egress.objects.TbPins.Delete(p.key(a)), "unpin "+a.String())
}

// Idle is how long no packet went to or came from a pinned address through its pin; an address that is not pinned, or was
// never used, has been idle for ever.
func (p *Pins) Idle(a netip.Addr) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	var pin egressPin
	if err := p.egress.objects.TbPins.Lookup(p.key(a), &pin); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, fmt.Errorf("look at the pin of %s: %w", a, err)
	}
	if pin.Used == 0 {
		return math.MaxInt64, nil
	}
	return max(0, time.Duration(ts.Nano())-time.Duration(pin.Used)), nil
}

// Close removes the set with all it holds. Unbind what is bound with it first.
func (p *Pins) Close() error {
	p.egress.mu.Lock()
	defer p.egress.mu.Unlock()
	delete(p.egress.pins, p.id)
	if err := deleteWhere(p.egress.objects.TbPins, func(k egressPinKey) bool { return k.Set == p.id }); err != nil {
		return fmt.Errorf("remove pins: %w", err)
	}
	return nil
}
