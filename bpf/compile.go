package bpf

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// maxRanges is MAX_RANGES in src/types.h.
const maxRanges = len(egressPorts{}.Ranges)

// compiled is a policy as the maps hold it. A longest-prefix lookup finds one entry only, so each prefix carries, beside
// its own rules, those of every wider prefix: deny outranks allow whatever the prefix lengths, and a packet costs one
// trie walk and one short list however many rules there are.
type compiled struct {
	mode     Mode
	prefixes []compiledPrefix
	lists    []egressPorts // distinct
	digest   [sha256.Size]byte
}

type compiledPrefix struct {
	prefix netip.Prefix // widened
	list   uint32
}

// span is a port range in which the same protocols are allowed and denied all through.
type span struct {
	low, high   uint16
	allow, deny Protocols
}

// compile is pure: the same policy, however written, gives the same result.
func compile(p Policy) (*compiled, error) {
	own := map[netip.Prefix][]span{}
	for _, r := range p.Allow {
		own[r.Prefix] = append(own[r.Prefix], span{r.Low, r.High, r.Protocols, 0})
	}
	for _, r := range p.Deny {
		own[r.Prefix] = append(own[r.Prefix], span{r.Low, r.High, 0, r.Protocols})
	}
	// IPv4 lives inside the IPv6 space of the trie. An entry for all of it, if only an empty one, keeps a rule for ::/0 from
	// speaking about IPv4.
	if all := netip.PrefixFrom(netip.IPv4Unspecified(), 0); len(own) > 0 && own[all] == nil {
		own[all] = []span{}
	}
	prefixes := make([]netip.Prefix, 0, len(own))
	for prefix := range own {
		prefixes = append(prefixes, prefix)
	}
	// The families one after the other, and wider prefixes before those they contain: then a stack holds exactly the ones
	// around the current prefix.
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().BitLen()-b.Addr().BitLen(), a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
	})
	type level struct {
		prefix netip.Prefix
		spans  []span
	}
	var stack []level
	out := &compiled{mode: p.Mode}
	known := map[egressPorts]uint32{}
	for _, prefix := range prefixes {
		for len(stack) > 0 && !stack[len(stack)-1].prefix.Contains(prefix.Addr()) {
			stack = stack[:len(stack)-1]
		}
		spans := own[prefix]
		if len(stack) > 0 {
			spans = append(slices.Clone(stack[len(stack)-1].spans), spans...)
		}
		spans = flatten(spans)
		stack = append(stack, level{prefix, spans})
		ports, err := portsOf(spans)
		if err != nil {
			return nil, fmt.Errorf("rules for %s: %w", prefix, err)
		}
		list, ok := known[ports]
		if !ok {
			list = uint32(len(out.lists))
			known[ports] = list
			out.lists = append(out.lists, ports)
		}
		out.prefixes = append(out.prefixes, compiledPrefix{widen(prefix), list})
	}
	out.digest = out.sum()
	return out, nil
}

// flatten cuts overlapping spans into disjoint ones, in order, and joins neighbours that say the same.
func flatten(in []span) []span {
	var cuts []int // first ports of stretches in which nothing changes
	for _, s := range in {
		cuts = append(cuts, int(s.low), int(s.high)+1)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []span
	for i := 0; i+1 < len(cuts); i++ {
		s := span{low: uint16(cuts[i]), high: uint16(cuts[i+1] - 1)}
		for _, r := range in {
			if r.low <= s.low && s.high <= r.high {
				s.allow |= r.allow
				s.deny |= r.deny
			}
		}
		s.allow &^= s.deny
		if s.allow|s.deny == 0 {
			continue
		}
		if n := len(out); n > 0 && int(out[n-1].high)+1 == int(s.low) && out[n-1].allow == s.allow && out[n-1].deny == s.deny {
			out[n-1].high = s.high
			continue
		}
		out = append(out, s)
	}
	return out
}

func portsOf(spans []span) (egressPorts, error) {
	var out egressPorts
	add := func(s span, protocols Protocols, deny uint8) {
		if protocols == 0 {
			return
		}
		if int(out.Count) < maxRanges {
			out.Ranges[out.Count] = egressRange{Low: s.low, High: s.high, Protos: uint8(protocols), Deny: deny}
		}
		out.Count++
	}
	for _, s := range spans {
		add(s, s.allow, 0)
		add(s, s.deny, 1)
	}
	if int(out.Count) > maxRanges {
		return out, fmt.Errorf("%d separate port ranges, at most %d are possible: name ranges instead of single ports",
			out.Count, maxRanges)
	}
	return out, nil
}

func (c *compiled) sum() [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte{byte(c.mode)})
	for _, p := range c.prefixes {
		b, ports := p.prefix.Addr().As16(), &c.lists[p.list]
		h.Write(b[:])
		h.Write([]byte{byte(p.prefix.Bits())})
		for _, r := range ports.Ranges[:ports.Count] {
			h.Write(binary.BigEndian.AppendUint16(nil, r.Low))
			h.Write(binary.BigEndian.AppendUint16(nil, r.High))
			h.Write([]byte{r.Protos, r.Deny})
		}
		h.Write([]byte{0xff, 0xff}) // no range starts with these protocol bits: ends the list
	}
	return [sha256.Size]byte(h.Sum(nil))
}
