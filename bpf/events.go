package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Source is which hook refused.
type Source uint8

// The sources. A refused packet has no process: the kernel may send it from anywhere.
const (
	Connect = Source(egressHookHOOK_CONNECT)
	Sendmsg = Source(egressHookHOOK_SENDMSG)
	Packet  = Source(egressHookHOOK_PACKET)
)

// NoSlot is the slot of an event from a control group that no job is bound to.
const NoSlot = ^uint32(0)

// Event is one refusal, or several alike.
type Event struct {
	Monotonic uint64 // CLOCK_MONOTONIC, nanoseconds
	Slot      uint32
	Cgroup    uint64     // 0 for packets
	Ifindex   uint32     // 0 for sockets
	Addr      netip.Addr // IPv4 also when the job wrote it as ::ffff:a.b.c.d
	Port      uint16
	Proto     uint8  // IPPROTO_*
	Rule      string // network.none, network.metadata, network.node, network.deny, network.default, network.budget
	Source    Source
	PID       uint32 // thread group in the initial PID namespace, 0 for packets
	JailPID   uint32 // the same as the jail sees it, 0 when not known
	Program   string // as the process names itself
	Count     uint32
}

var ruleNames = map[egressRule]string{
	egressRuleRULE_NONE:     "network.none",
	egressRuleRULE_METADATA: "network.metadata",
	egressRuleRULE_NODE:     "network.node",
	egressRuleRULE_DENY:     "network.deny",
	egressRuleRULE_DEFAULT:  "network.default",
	egressRuleRULE_BUDGET:   "network.budget",
}

// events carries the ring to a channel. When nobody receives, the ring fills and the kernel counts what is lost: memory
// stays bounded.
type events struct {
	reader *ringbuf.Reader
	out    chan Event
	stop   chan struct{}
	done   chan struct{}
}

func openEvents(ring *ebpf.Map) (*events, error) {
	reader, err := ringbuf.NewReader(ring)
	if err != nil {
		return nil, fmt.Errorf("open event ring: %w", err)
	}
	v := &events{reader: reader, out: make(chan Event, 64), stop: make(chan struct{}), done: make(chan struct{})}
	go v.run()
	return v, nil
}

func (v *events) run() {
	defer close(v.done)
	defer close(v.out)
	var record ringbuf.Record
	for {
		if err := v.reader.ReadInto(&record); err != nil {
			return // only ErrClosed: the ring's own format is the kernel's
		}
		e, ok := decode(record.RawSample)
		if !ok {
			continue
		}
		select {
		case v.out <- e:
		case <-v.stop:
			return
		}
	}
}

func (v *events) close() error {
	select {
	case <-v.stop:
		return nil
	default:
	}
	close(v.stop)
	err := v.reader.Close()
	<-v.done
	return err
}

func decode(raw []byte) (Event, bool) {
	var r egressEvent
	if n, err := binary.Decode(raw, binary.NativeEndian, &r); err != nil || n > len(raw) {
		return Event{}, false
	}
	program, _, _ := bytes.Cut(r.Comm[:], []byte{0})
	e := Event{
		Monotonic: r.Ktime, Slot: r.Slot, Cgroup: r.Cgroup, Ifindex: r.Ifindex,
		Addr: netip.AddrFrom16(r.Addr.as16()).Unmap(), Port: r.Port, Proto: r.Proto, Rule: ruleNames[egressRule(r.Rule)],
		Source: Source(r.Hook), PID: r.Tgid, Program: string(program), Count: r.Count,
	}
	if e.PID != 0 {
		e.JailPID = jailPID(e.PID)
	}
	return e, true
}

// jailPID asks procfs for the innermost of a process' ids. It is for people to read, so a process that is gone, or an agent
// that cannot see it, is no error.
func jailPID(pid uint32) uint32 {
	status, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "NStgid:"); ok {
			ids := strings.Fields(rest)
			if len(ids) < 2 {
				return 0
			}
			id, err := strconv.ParseUint(ids[len(ids)-1], 10, 32)
			if err != nil {
				return 0
			}
			return uint32(id)
		}
	}
	return 0
}

// Events is the stream of refusals of all slots. One receiver; it is closed by Close.
func (e *Egress) Events() <-chan Event { return e.events.out }
