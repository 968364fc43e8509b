package bpf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
)

// DefaultMetadata lists the addresses of cloud metadata services, and the link-local ranges they live in. No policy opens
// them.
func DefaultMetadata() []netip.Prefix {
	return prefixes(
		"169.254.0.0/16",     // link-local: AWS, GCP, Azure, Oracle, DigitalOcean, ECS task credentials …
		"168.63.129.16/32",   // Azure's platform address
		"100.100.100.200/32", // Alibaba Cloud
		"fe80::/10",          // link-local
		"fd00:ec2::/32",      // AWS over IPv6
		"fd20:ce::254/128",   // GCP over IPv6
	)
}

// unroutable are addresses that are nobody's public service: the unspecified and loopback networks (which reach here only
// by a packet that has no business on a wire), multicast, broadcast, and tunnel forms that hide an IPv4 address.
func unroutable() []netip.Prefix {
	return prefixes(
		"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "fec0::/10", "ff00::/8",
	)
}

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// reservedSet gives each reserved prefix its rule. A lookup finds the longest prefix only, so a node prefix within a
// metadata prefix says metadata too.
func reservedSet(metadata, node []netip.Prefix) (map[netip.Prefix]egressRule, error) {
	// IPv4 lives inside the IPv6 space of the trie: the entry for all of it keeps a wide IPv6 prefix from covering it.
	out := map[netip.Prefix]egressRule{widen(netip.PrefixFrom(netip.IPv4Unspecified(), 0)): egressRuleRULE_ALLOW}
	for _, p := range slices.Concat(metadata, node, unroutable()) {
		if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("reserved prefix %s is not a network", p)
		}
		out[widen(p)] = egressRuleRULE_NODE
	}
	for _, p := range slices.Concat(metadata, node, unroutable()) {
		if slices.ContainsFunc(metadata, func(m netip.Prefix) bool { return m.Bits() <= p.Bits() && m.Contains(p.Addr()) }) {
			out[widen(p)] = egressRuleRULE_METADATA
		}
	}
	return out, nil
}

// SetNode replaces the node's own addresses and internal ranges, for when the node's interfaces change. New prefixes are
// reserved before old ones are let go.
func (e *Egress) SetNode(node []netip.Prefix) error {
	want, err := reservedSet(e.metadata, node)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for p, rule := range want {
		if err := e.objects.TbReserved.Put(reservedKey(p), uint32(rule)); err != nil {
			return fmt.Errorf("reserve %s: %w", p, err)
		}
	}
	var stale []egressReservedKey
	var key egressReservedKey
	var rule uint32
	all := e.objects.TbReserved.Iterate()
	for all.Next(&key, &rule) {
		if _, ok := want[netip.PrefixFrom(netip.AddrFrom16(key.Addr.as16()), int(key.Prefixlen))]; !ok {
			stale = append(stale, key)
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("list reserved prefixes: %w", err)
	}
	for _, key := range stale {
		if err := e.objects.TbReserved.Delete(key); err != nil {
			return fmt.Errorf("release reserved prefix: %w", err)
		}
	}
	return nil
}

func reservedKey(p netip.Prefix) egressReservedKey {
	return egressReservedKey{Prefixlen: uint32(p.Bits()), Addr: addrOf(p.Addr())}
}

// Reserved reports whether an address is one that no policy opens.
func (e *Egress) Reserved(a netip.Addr) (bool, error) {
	var rule uint32
	err := e.objects.TbReserved.Lookup(reservedKey(netip.PrefixFrom(netip.AddrFrom16(a.As16()), 128)), &rule)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, fmt.Errorf("look for reserved address %s: %w", a, err)
	}
	if rule != uint32(egressRuleRULE_ALLOW) {
		return true, nil
	}
	if inner, ok := Inside64(a); ok {
		return e.Reserved(inner)
	}
	return false, nil
}
