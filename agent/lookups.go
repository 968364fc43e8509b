package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/netns"
	"github.com/tolbooth-dev/tolbooth/netns/resolver"
)

// lookup is what the jobs' lookups share.
type lookup struct {
	resolver *resolver.Resolver
	budget   resolver.Budget
	search   []string // of the jobs' resolv.conf
	faults   *faults
}

// serveNames answers the job's lookups, in the job's own namespace, whether it has a network or not.
func (x *wire) serveNames() error {
	if x.ns == nil {
		return nil // in the agent's own namespace, where the node's resolvers are
	}
	udp, tcp, err := x.ns.TakeDNS()
	if err != nil {
		return err
	}
	l := x.nets.lookup
	x.pins = x.ns.NewPins(x.nets.egress.NewPins())
	x.names, err = l.resolver.Serve(resolver.JailOptions{
		UDP: udp, TCP: tcp, Rules: x.network.Names, Budget: l.budget, Search: l.search, Pins: x.pins,
		OpenByAddress: x.opensAddress, Refused: x.refusedName, Fault: func(err error) { l.faults.add("names", err) },
	})
	return err
}

// closeLookups makes lookups fail at once, where nobody would answer them.
func (p *place) closeLookups() error {
	if p.netns == nil {
		return nil
	}
	udp, tcp, err := p.netns.TakeDNS()
	if err != nil {
		return err
	}
	return errors.Join(udp.Close(), tcp.Close())
}

// closeNames stops answering. It comes after the job is unbound from its pins.
func (x *wire) closeNames() error {
	var errs []error
	if x.names != nil {
		errs = append(errs, x.names.Close())
	}
	if x.pins != nil {
		errs = append(errs, x.pins.Close())
	}
	return errors.Join(errs...)
}

// renames replaces the rules by name.
func (x *wire) renames(r resolver.Rules) error {
	if x.names == nil {
		return nil
	}
	if err := x.names.SetRules(r); err != nil {
		return fmt.Errorf("the new rules are in force, but addresses of names that they forbid are still open: %w", err)
	}
	return nil
}

// pinned is the id of the job's pins in the kernel.
func (x *wire) pinned() uint32 {
	if x.pins == nil {
		return 0
	}
	return x.pins.ID()
}

// allows is the verdict of the job's rules, by address and by name, on one destination.
func (x *wire) allows(dst netip.Addr, port uint16, protocol bpf.Protocols) bool {
	x.mu.Lock()
	p := x.network.Policy
	x.mu.Unlock()
	if p.Allows(dst, port, protocol) {
		return true
	}
	// A pin opens what no rule by address speaks of: not what one denies.
	undenied := bpf.Policy{Mode: bpf.ModeOpen, Deny: p.Deny}
	return x.names != nil && p.Mode == bpf.ModeAllow && undenied.Allows(dst, port, protocol) && x.names.Allows(dst, port, protocol)
}

// opensAddress reports whether the rules by address open an address, for whatever port.
func (x *wire) opensAddress(a netip.Addr) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.network.Policy
	return p.Mode == bpf.ModeOpen || slices.ContainsFunc(p.Allow, func(r bpf.Rule) bool { return r.Prefix.Contains(a) })
}

// refusedName records a lookup that was refused.
func (x *wire) refusedName(r resolver.Refusal) {
	x.nets.mu.Lock()
	x.nets.refused[r.Rule] += r.Count
	x.nets.mu.Unlock()
	x.mu.Lock()
	d := x.wordName(r)
	fresh := x.denials.add(d)
	x.mu.Unlock()
	if fresh {
		x.deny(d)
	}
}

// wordName turns a refused lookup into a denial, by the rules that hold now. Called with mu held.
func (x *wire) wordName(r resolver.Refusal) api.Denial {
	d := api.Denial{
		Layer: "dns", What: fmt.Sprintf("resolve %s (%s)", r.Name, r.Type), Rule: r.Rule, Count: r.Count, Fix: noFix, Evidence: fromKernel,
		AtMS: max(0, (monotonic() - x.zero).Milliseconds()),
	}
	if r.Name == "" {
		d.What = "resolve further names"
		d.Why = "a run records so many refused names at most; these were refused like the others, and only counted"
		return d
	}
	name, err := netns.CanonicalName(r.Name)
	if err != nil && (r.Rule == resolver.RuleName || r.Rule == resolver.RuleNone) {
		d.Why = "this is no host name, so no rule can allow it"
		return d
	}
	switch r.Rule {
	case resolver.RuleNone:
		d.Why = "the job has no network (network.mode none, the default); allow the names that it needs, with their ports: 443 stands for the one that it means to use"
		x.fixAllow(&d, nil, name+":443")
	case resolver.RuleName:
		d.Why = "no rule of network.allow has the name; add it if the job needs it, with its port: 443 stands for the one that it means to use"
		x.fixAllow(&d, x.network.Allow, name+":443")
	case resolver.RuleDeny:
		d.Why = "a rule of network.deny has the name, and deny outranks allow; remove that rule if the job needs it"
		x.undenyName(&d, name)
	case resolver.RuleRebinding:
		x.wordInternal(&d, r)
	default:
		d.Why = fmt.Sprintf("the job used up what this node lets one job look up (%d); the operator sets it with network.dns_queries and network.dns_names", r.Limit)
	}
	return d
}

// undenyName offers to take away the deny rules that have a name, when the rest of the rules lets it through.
func (x *wire) undenyName(d *api.Denial, name string) {
	matches := func(r netns.NameRule) bool { return r.Matches(name) }
	if !x.network.Names.Open && !slices.ContainsFunc(x.network.Names.Allow, matches) {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(x.network.Deny), func(text string) bool {
		r, err := netns.ParseNameRule(text)
		return err == nil && matches(r)
	})
	d.Fix = mustJSON(map[string]any{"network": map[string]any{"deny": rest}})
}

// wordInternal words an answer of which internal addresses were taken out.
func (x *wire) wordInternal(d *api.Denial, r resolver.Refusal) {
	var list, added []string
	closed := false
	for _, a := range r.Addrs {
		list = append(list, a.String())
		reserved, err := x.nets.egress.Reserved(a)
		closed = closed || reserved || err != nil
		added = append(added, x.ruleFor(a, r.Name))
	}
	d.Why = fmt.Sprintf("the name leads to internal addresses (%s), which a name from outside has no business with (DNS rebinding); ", strings.Join(list, ", "))
	if closed {
		d.Why += "some of them are closed to jobs by the node's configuration"
		return
	}
	d.Why += "if they are meant, allow them by address as well"
	x.fixAllow(d, x.network.Allow, added...)
}

// ruleFor is a rule by address with the ports that the first rule for the name has.
func (x *wire) ruleFor(a netip.Addr, name string) string {
	rule := bpf.Rule{Prefix: netip.PrefixFrom(a, a.BitLen()), High: 65535, Protocols: bpf.AllProtocols}
	for _, r := range x.network.Names.Allow {
		if r.Matches(name) {
			rule.Low, rule.High, rule.Protocols = r.Low, r.High, r.Protocols
			break
		}
	}
	text, _ := netns.FormatRule(rule) // every rule that came from a text has one
	return text
}

// nameAddress says of a refused address what the job's lookups had to do with it. Called with mu held.
func (x *wire) nameAddress(d *api.Denial, e bpf.Event, proto string) {
	if x.names == nil {
		return
	}
	if names := x.names.Names(e.Addr); len(names) > 0 {
		d.Why = fmt.Sprintf("it is an address of %s, which network.allow has with other ports; add this one if the job needs it", strings.Join(names, ", "))
		x.fixAllow(d, x.network.Allow, fmt.Sprintf("%s:%d/%s", names[0], e.Port, proto))
		return
	}
	if lapse, ok := x.names.Lapsed(e.Addr); ok {
		d.Rule = "network.dns_entry_expired"
		d.Why = fmt.Sprintf("the job had looked it up as %s, but that answer expired %s ago and no connection was using it: look the name up again before connecting",
			lapse.Name, time.Since(lapse.At).Round(time.Second))
	}
}
