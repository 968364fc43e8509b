package agent

import (
	"errors"
	"fmt"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/netns"
)

// network checks a request's egress policy.
func (b *rulebook) network(n api.Network, mode jail.Mode) (network, error) {
	out := network{Mode: n.Mode}
	switch n.Mode {
	case "":
		out.Mode = "none"
	case "none", "allow", "open":
	default:
		return out, refuse(api.ClassInvalid, "network.mode", "%s is not one of: none, allow, open", quoted(n.Mode))
	}
	if out.Mode == "none" && len(n.Allow) > 0 {
		return out, refuse(api.ClassInvalid, "network.allow", "has no effect in mode none").hint(`set network.mode to "allow"`)
	}
	if out.Mode != "none" && !b.cfg.Network.Open {
		return out, refuse(api.ClassForbidden, "network.mode", "this node gives jobs no network").
			hint("the operator permits it with network.open")
	}
	if out.Mode == "allow" && mode == jail.Minimal {
		return out, refuse(api.ClassUnsupported, "network.mode", "jail mode minimal has no network of its own to hold rules against").
			hint("use jail mode syd, or mode open under the cluster's own policy")
	}
	if out.Mode == "open" && len(n.Allow) > 0 {
		return out, refuse(api.ClassInvalid, "network.allow", "has no effect in mode open").hint(`set network.mode to "allow" to reach nothing but these`)
	}
	if err := b.ceiling.check(out.Mode, n.Allow); err != nil {
		return out, err
	}
	if err := measures(&out, n, mode); err != nil {
		return out, err
	}
	if n := len(n.Allow) + len(n.Deny); n > maxRules {
		return out, refuse(api.ClassInvalid, "network", "%d rules; at most %d are taken", n, maxRules)
	}
	deny, denyNames, err := parseRules("network.deny", n.Deny)
	if err != nil || out.Mode == "none" {
		out.Names.None = true
		return out, err // deny rules are kept by having no network at all
	}
	out.Policy.Deny, out.Names.Deny = deny, denyNames
	out.Names.Open = out.Mode == "open"
	out.Policy.Mode = map[string]bpf.Mode{"allow": bpf.ModeAllow, "open": bpf.ModeOpen}[out.Mode]
	out.Allow, out.Deny = n.Allow, n.Deny
	if out.Policy.Allow, out.Names.Allow, err = parseRules("network.allow", n.Allow); err != nil {
		return out, err
	}
	if len(n.Deny) > 0 && out.Mode == "open" && mode == jail.Minimal {
		return out, refuse(api.ClassUnsupported, "network.deny", "jail mode minimal has no network of its own to hold rules against")
	}
	return out, nil
}

// measures checks how much a request may transfer.
func measures(out *network, n api.Network, mode jail.Mode) error {
	out.Rate, out.Budget = int64(n.Rate), int64(n.Budget)
	for _, m := range []struct {
		field string
		value int64
		least int64
		unit  string
	}{{"network.rate", out.Rate, netns.MinRate, "bits per second"}, {"network.budget", out.Budget, minBudget, "bytes"}} {
		switch {
		case m.value == 0:
		case out.Mode == "none":
			return refuse(api.ClassInvalid, m.field, "has no effect in mode none").hint("set network.mode to allow or open")
		case mode == jail.Minimal:
			return refuse(api.ClassUnsupported, m.field, "jail mode minimal has no network of its own to hold it against").hint("use jail mode syd")
		case m.value < m.least:
			return refuse(api.ClassInvalid, m.field, "%d is less than %d %s: nothing would get through", m.value, m.least, m.unit)
		}
	}
	return nil
}

// minBudget is the smallest budget, in bytes: a connection that says nothing takes less.
const minBudget = 1000

// parseRules reads rules by address and rules by name.
func parseRules(field string, rules []string) (addrs []bpf.Rule, names []netns.NameRule, err error) {
	for i, text := range rules {
		addr, err := netns.ParseRule(text)
		if err == nil {
			addrs = append(addrs, addr)
			continue
		}
		if !errors.Is(err, netns.ErrDomain) {
			return nil, nil, refuse(api.ClassInvalid, fmt.Sprintf("%s[%d]", field, i), "%s", err)
		}
		name, err := netns.ParseNameRule(text)
		if err != nil {
			return nil, nil, refuse(api.ClassInvalid, fmt.Sprintf("%s[%d]", field, i), "%s", err)
		}
		names = append(names, name)
	}
	return addrs, names, nil
}
