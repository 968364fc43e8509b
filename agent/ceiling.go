package agent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/netns"
)

// ceiling is the most that any request may allow its job to reach: the operator's network.permit. Without rules it is
// everything that the node does not close to every job.
type ceiling struct {
	addrs []bpf.Rule
	names []netns.NameRule
}

func newCeiling(rules []string) (ceiling, error) {
	var c ceiling
	var err error
	c.addrs, c.names, err = parseRules("network.permit", rules)
	return c, err
}

func (c ceiling) isEmpty() bool { return len(c.addrs)+len(c.names) == 0 }

// check refuses the first rule of a request that goes beyond the ceiling.
func (c ceiling) check(mode string, allow []string) error {
	if c.isEmpty() || mode == "none" {
		return nil
	}
	if mode == "open" {
		return refuse(api.ClassForbidden, "network.mode", "this node permits jobs certain destinations only, and open is all of them").
			hint("use mode allow; GET /v1/node lists what the operator's network.permit has")
	}
	for i, text := range allow {
		if !c.permits(text) {
			return refuse(api.ClassForbidden, fmt.Sprintf("network.allow[%d]", i), "%s goes beyond what this node permits jobs to reach", quoted(text)).
				hint("GET /v1/node lists what the operator's network.permit has; one of its rules must cover this one whole")
		}
	}
	return nil
}

// permits reports whether one rule of the ceiling covers a rule whole.
func (c ceiling) permits(text string) bool {
	if c.isEmpty() {
		return true
	}
	addr, err := netns.ParseRule(text)
	if err == nil {
		return slices.ContainsFunc(c.addrs, func(r bpf.Rule) bool {
			return r.Prefix.Bits() <= addr.Prefix.Bits() && r.Prefix.Contains(addr.Prefix.Addr()) &&
				covers(r.Low, r.High, r.Protocols, addr.Low, addr.High, addr.Protocols)
		})
	}
	if !errors.Is(err, netns.ErrDomain) {
		return false
	}
	name, err := netns.ParseNameRule(text)
	return err == nil && slices.ContainsFunc(c.names, func(r netns.NameRule) bool {
		below := r.Wildcard && (r.Matches(name.Name) || name.Wildcard && name.Name == r.Name)
		same := r.Name == name.Name && !r.Wildcard && !name.Wildcard
		return (below || same) && covers(r.Low, r.High, r.Protocols, name.Low, name.High, name.Protocols)
	})
}

// covers reports whether the ports and protocols of one rule include those of another.
func covers(low, high uint16, p bpf.Protocols, inLow, inHigh uint16, in bpf.Protocols) bool {
	return low <= inLow && inHigh <= high && in&^p == 0
}
