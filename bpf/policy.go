package bpf

import (
	"fmt"
	"net/netip"
	"slices"
)

// Mode is what a policy does with a destination that no rule names.
type Mode uint8

// The modes. A policy of mode ModeNone refuses everything and has no rules.
const (
	ModeNone  = Mode(egressModeMODE_NONE)
	ModeAllow = Mode(egressModeMODE_ALLOW)
	ModeOpen  = Mode(egressModeMODE_OPEN)
)

// Protocols is a set of transport protocols.
type Protocols uint8

// The protocols a rule can name. ICMP means echo requests and their replies.
const (
	TCP Protocols = 1 << iota
	UDP
	ICMP
	AllProtocols = TCP | UDP | ICMP
)

// Rule names destinations: a prefix, a range of ports (inclusive) and protocols. A rule with ICMP must cover all ports,
// since ICMP has none.
type Rule struct {
	Prefix    netip.Prefix
	Low, High uint16
	Protocols Protocols
}

// check reports what makes a rule meaningless.
func (r Rule) check() error {
	switch {
	case !r.Prefix.IsValid():
		return fmt.Errorf("rule without an address")
	case r.Prefix != r.Prefix.Masked():
		return fmt.Errorf("rule %s has bits set after its prefix length", r.Prefix)
	case r.Prefix.Addr().Is4In6():
		return fmt.Errorf("rule %s is an IPv4 network in IPv6 writing", r.Prefix)
	case r.Low > r.High:
		return fmt.Errorf("rule %s has ports %d-%d the wrong way round", r.Prefix, r.Low, r.High)
	case r.Protocols == 0 || r.Protocols&^AllProtocols != 0:
		return fmt.Errorf("rule %s has unknown protocols %#x", r.Prefix, r.Protocols)
	case r.Protocols&ICMP != 0 && (r.Low != 0 || r.High != 65535):
		return fmt.Errorf("rule %s gives ports to ICMP", r.Prefix)
	}
	return nil
}

// Policy is a job's egress policy. Deny outranks Allow whatever the prefix lengths.
type Policy struct {
	Mode  Mode
	Allow []Rule
	Deny  []Rule
}

// check reports contradictions in a policy; max bounds its rules.
func (p Policy) check(max int) error {
	switch {
	case p.Mode > ModeOpen:
		return fmt.Errorf("unknown mode %d", p.Mode)
	case p.Mode == ModeNone && len(p.Allow)+len(p.Deny) > 0:
		return fmt.Errorf("rules without a network")
	case p.Mode == ModeOpen && len(p.Allow) > 0:
		return fmt.Errorf("allow rules where everything is allowed")
	case len(p.Allow)+len(p.Deny) > max:
		return fmt.Errorf("%d rules, at most %d are possible", len(p.Allow)+len(p.Deny), max)
	}
	for _, list := range [][]Rule{p.Allow, p.Deny} {
		for _, r := range list {
			if err := r.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// nat64 is the well-known prefix of RFC 6052: a gateway sends such packets to the IPv4 address in the last 32 bits.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Inside64 is the IPv4 address that a NAT64 gateway sends packets for dst to; false when it is not of the prefix.
func Inside64(dst netip.Addr) (netip.Addr, bool) {
	if !nat64.Contains(dst) {
		return netip.Addr{}, false
	}
	all := dst.As16()
	return netip.AddrFrom4([4]byte(all[12:])), true
}

// Allows is the verdict of the request's rules on one destination, as the programs give it once no reserved range has refused
// it. port is 0 for ICMP.
func (p Policy) Allows(dst netip.Addr, port uint16, protocol Protocols) bool {
	dst = dst.Unmap()
	forms := []netip.Addr{dst}
	if inner, ok := Inside64(dst); ok {
		forms = append(forms, inner)
	}
	named := func(rules []Rule) bool {
		return slices.ContainsFunc(rules, func(r Rule) bool {
			return slices.ContainsFunc(forms, r.Prefix.Contains) && r.Low <= port && port <= r.High && r.Protocols&protocol != 0
		})
	}
	if p.Mode == ModeNone || protocol == 0 || named(p.Deny) {
		return false
	}
	return p.Mode == ModeOpen || named(p.Allow)
}
