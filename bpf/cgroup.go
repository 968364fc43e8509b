package bpf

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Job is a control group and the policy its processes are judged by. Its own addresses, where it has any, are always open
// to it.
type Job struct {
	Cgroup uint64 // see CgroupID
	Slot   uint32
	Policy uint32
	Pins   uint32     // Pins.ID; 0: none
	Addr4  netip.Addr // zero: none
	Addr6  netip.Addr
	Budget uint64 // as of its veth
	OnNode bool   // it has no network namespace of its own, so that loopback is the node's and judged like any address
}

// CgroupID is the kernel's id of a cgroup v2 directory: its inode number.
func CgroupID(dir string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, fmt.Errorf("stat control group: %w", err)
	}
	return st.Ino, nil
}

// BindCgroup judges the sockets of a control group by a policy, and sets the slot's counters to zero unless the slot
// already belongs to that group. Calling it again replaces the policy at once.
func (e *Egress) BindCgroup(j Job) error {
	if j.Slot >= e.slots {
		return fmt.Errorf("bind control group: slot %d, only %d exist", j.Slot, e.slots)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.policies[j.Policy] == nil {
		return fmt.Errorf("bind control group: unknown policy %d", j.Policy)
	}
	var slot egressSlot
	if err := e.objects.TbSlots.Lookup(j.Slot, &slot); err != nil {
		return fmt.Errorf("bind control group: read slot: %w", err)
	}
	if slot.Generation != j.Cgroup {
		if err := e.objects.TbSlots.Put(j.Slot, egressSlot{Generation: j.Cgroup}); err != nil {
			return fmt.Errorf("bind control group: reset slot: %w", err)
		}
	}
	entry := egressBinding{
		Policy: j.Policy, Pins: j.Pins, Slot: j.Slot, Addr4: addrOf(j.Addr4), Addr6: addrOf(j.Addr6), Budget: j.Budget,
	}
	if j.OnNode {
		entry.OnNode = 1
	}
	if err := e.objects.TbCgroups.Put(j.Cgroup, entry); err != nil {
		return fmt.Errorf("bind control group: %w", err)
	}
	e.cgroups[j.Cgroup] = true
	return nil
}

// UnbindCgroup forgets a control group: what still runs in it is refused everything but loopback. The slot's counters stay
// readable until the slot is bound again.
func (e *Egress) UnbindCgroup(id uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.cgroups, id)
	return ignoreMissing(e.objects.TbCgroups.Delete(id), "unbind control group")
}

// Counters are one slot's figures since its job was bound.
type Counters struct {
	TxBytes, TxPackets uint64 // sent by the job, accepted
	RxBytes, RxPackets uint64
	TxDropped          uint64 // packets
	RxDropped          uint64
	Denied             uint64 // refusals of either hook, reported or not
	Reported           uint64 // events sent: whoever has received that many for the slot has them all
	Suppressed         uint64 // refusals that the rate limits left without an event of their own
	Lost               uint64 // events that found the ring full
	Spent              uint64 // the largest budget that was used up
}

// Stats reads a slot's counters.
func (e *Egress) Stats(slot uint32) (Counters, error) {
	var s egressSlot
	if err := e.objects.TbSlots.Lookup(slot, &s); err != nil {
		return Counters{}, fmt.Errorf("read counters of slot %d: %w", slot, err)
	}
	return Counters{
		TxBytes: s.TxBytes, TxPackets: s.TxPackets, RxBytes: s.RxBytes, RxPackets: s.RxPackets,
		TxDropped: s.TxDropped, RxDropped: s.RxDropped,
		Denied: s.Denied, Reported: s.Reported, Suppressed: s.Suppressed, Lost: s.Lost, Spent: s.Spent,
	}, nil
}
