package bpf

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// tallies is TALLIES of the programs: how many far ends one slot can tell apart, at most.
const tallies = 64

// Flow is what a job sent to and received from one far end.
type Flow struct {
	Remote             netip.Addr
	Port               uint16 // 0 for ICMP, and for fragments that carry none
	Proto              uint8  // IPPROTO_*
	TxBytes, TxPackets uint64
	RxBytes, RxPackets uint64
	Refused            uint64 // connections refused and packets dropped
	Rule               string // the last refusal's; empty: nothing was refused
}

// Flows are those of the job that the slot was last bound to, by the bytes that they carried, most first. leftOut is how many
// packets and refusals found no place among them.
func (e *Egress) Flows(slot uint32) (flows []Flow, leftOut uint64, err error) {
	var s egressSlot
	if err := e.objects.TbSlots.Lookup(slot, &s); err != nil {
		return nil, 0, fmt.Errorf("read flows of slot %d: %w", slot, err)
	}
	for i := range uint32(tallies) {
		var y egressTally
		if err := e.objects.TbTallies.Lookup(slot*tallies+i, &y); err != nil {
			return nil, 0, fmt.Errorf("read flows of slot %d: %w", slot, err)
		}
		if y.Generation != s.Generation {
			continue
		}
		flows = append(flows, Flow{
			Remote: netip.AddrFrom16(y.Remote.as16()).Unmap(), Port: y.Port, Proto: y.Proto,
			TxBytes: y.TxBytes, TxPackets: y.TxPackets, RxBytes: y.RxBytes, RxPackets: y.RxPackets,
			Refused: y.Refused, Rule: ruleNames[egressRule(y.Rule)],
		})
	}
	slices.SortStableFunc(flows, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.TxBytes+b.RxBytes, a.TxBytes+a.RxBytes), a.Remote.Compare(b.Remote), cmp.Compare(a.Port, b.Port))
	})
	return flows, s.Untallied, nil
}
