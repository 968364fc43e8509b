package agent

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
)

// traffic is what a job sent and received. Bytes count packet headers.
type traffic struct {
	tx, rx  int64
	flows   []api.Flow // by bytes, most first
	leftOut int64      // packets and refusals that no flow of the list counts
}

// Traffic reads the job's counters. A job that never had a link sent nothing, but may have been refused.
func (x *wire) Traffic() (traffic, error) {
	c, err := x.nets.egress.Stats(x.slot)
	if err != nil {
		return traffic{}, fmt.Errorf("count the job's traffic: %w", err)
	}
	out := traffic{tx: int64(c.TxBytes), rx: int64(c.RxBytes), flows: []api.Flow{}}
	if c.TxPackets+c.RxPackets+c.Denied == 0 {
		return out, nil
	}
	flows, leftOut, err := x.nets.egress.Flows(x.slot)
	if err != nil {
		return out, fmt.Errorf("list the job's flows: %w", err)
	}
	out.leftOut = int64(leftOut)
	for _, f := range flows {
		out.flows = append(out.flows, flowOf(f))
	}
	return out, nil
}

func flowOf(f bpf.Flow) api.Flow {
	verdict := "allowed"
	switch {
	case f.TxPackets+f.RxPackets == 0:
		verdict = "refused"
	case f.Refused > 0:
		verdict = "mixed"
	}
	return api.Flow{
		Destination: f.Remote.String(), Port: int(f.Port), Protocol: protocolName(f.Proto), Verdict: verdict, Rule: f.Rule,
		TxBytes: int64(f.TxBytes), TxPackets: int64(f.TxPackets), RxBytes: int64(f.RxBytes), RxPackets: int64(f.RxPackets),
		Refused: int64(f.Refused),
	}
}

// protocolName is a transport protocol as rules write it.
func protocolName(p uint8) string {
	switch p {
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_UDP:
		return "udp"
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		return "icmp"
	}
	return fmt.Sprintf("protocol %d", p)
}
