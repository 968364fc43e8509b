package bpf

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func rule(prefix string, low, high uint16, protocols Protocols) Rule {
	return Rule{netip.MustParsePrefix(prefix), low, high, protocols}
}

// plainVerdict is what a policy means, written without any cleverness.
func plainVerdict(p Policy, a netip.Addr, port uint16, protocol Protocols) egressRule {
	matches := func(rules []Rule) bool {
		for _, r := range rules {
			if r.Prefix.Contains(a) && r.Low <= port && port <= r.High && r.Protocols&protocol != 0 {
				return true
			}
		}
		return false
	}
	switch {
	case p.Mode == ModeNone:
		return egressRuleRULE_NONE
	case matches(p.Deny):
		return egressRuleRULE_DENY
	case matches(p.Allow) || p.Mode == ModeOpen:
		return egressRuleRULE_ALLOW
	}
	return egressRuleRULE_DEFAULT
}

// compiledVerdict looks a destination up as the programs do.
func compiledVerdict(c *compiled, a netip.Addr, port uint16, protocol Protocols) egressRule {
	if c.mode == ModeNone {
		return egressRuleRULE_NONE
	}
	wide := netip.AddrFrom16(a.As16())
	best := -1
	for i, p := range c.prefixes {
		if p.prefix.Contains(wide) && (best < 0 || p.prefix.Bits() > c.prefixes[best].prefix.Bits()) {
			best = i
		}
	}
	if best >= 0 {
		ports := &c.lists[c.prefixes[best].list]
		for _, r := range ports.Ranges[:ports.Count] {
			if r.Protos&uint8(protocol) != 0 && r.Low <= port && port <= r.High {
				if r.Deny != 0 {
					return egressRuleRULE_DENY
				}
				return egressRuleRULE_ALLOW
			}
		}
	}
	if c.mode == ModeOpen {
		return egressRuleRULE_ALLOW
	}
	return egressRuleRULE_DEFAULT
}

// randomPolicy draws prefixes and ports from so small a space that they overlap in every way.
func randomPolicy(r *rand.Rand) Policy {
	p := Policy{Mode: ModeAllow}
	if r.IntN(3) == 0 {
		p.Mode = ModeOpen
	}
	for range r.IntN(12) {
		addr := randomAddr(r)
		bits := r.IntN(addr.BitLen() + 1)
		rule := Rule{Prefix: netip.PrefixFrom(addr, bits).Masked(), Protocols: Protocols(1 + r.IntN(3))}
		if r.IntN(4) == 0 {
			rule.High, rule.Protocols = 65535, Protocols(1+r.IntN(7))
		} else {
			rule.Low = uint16(r.IntN(20))
			rule.High = rule.Low + uint16(r.IntN(8))
		}
		if r.IntN(2) == 0 || p.Mode == ModeOpen {
			p.Deny = append(p.Deny, rule)
		} else {
			p.Allow = append(p.Allow, rule)
		}
	}
	return p
}

func randomAddr(r *rand.Rand) netip.Addr {
	if r.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{10, byte(r.IntN(2)), 0, byte(r.IntN(4))})
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::%x", r.IntN(2), r.IntN(4)))
}

func TestCompiledPolicyMeansWhatItSays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		p := randomPolicy(r)
		if err := p.check(100); err != nil {
			t.Fatal(err)
		}
		c, err := compile(p)
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			a, port, protocol := randomAddr(r), uint16(r.IntN(30)), Protocols(1<<r.IntN(3))
			if protocol == ICMP {
				port = 0
			}
			if got, want := compiledVerdict(c, a, port, protocol), plainVerdict(p, a, port, protocol); got != want {
				t.Fatalf("%v port %d protocol %d: verdict %d, want %d, by %+v", a, port, protocol, got, want, p)
			} else if p.Allows(a, port, protocol) != (want == egressRuleRULE_ALLOW) {
				t.Fatalf("%v port %d protocol %d: Allows says %t, by %+v", a, port, protocol, want != egressRuleRULE_ALLOW, p)
			}
		}
	}
}

func TestSamePolicySharesADigest(t *testing.T) {
	one := Policy{Mode: ModeAllow, Allow: []Rule{rule("10.0.0.0/8", 80, 90, TCP), rule("10.0.0.0/8", 91, 99, TCP), rule("10.1.0.0/16", 1, 1, UDP)}}
	same := Policy{Mode: ModeAllow, Allow: []Rule{rule("10.1.0.0/16", 1, 1, UDP), rule("10.0.0.0/8", 80, 99, TCP)}}
	other := Policy{Mode: ModeAllow, Allow: []Rule{rule("10.0.0.0/8", 80, 98, TCP)}}
	digests := map[[32]byte]bool{}
	for _, p := range []Policy{one, same, other, {Mode: ModeNone}, {Mode: ModeAllow}, {Mode: ModeOpen}} {
		c, err := compile(p)
		if err != nil {
			t.Fatal(err)
		}
		digests[c.digest] = true
	}
	if len(digests) != 5 {
		t.Errorf("%d digests, want 5", len(digests))
	}
}

func TestPolicyRefusals(t *testing.T) {
	single := func(n int) (out []Rule) {
		for i := range n {
			out = append(out, rule("0.0.0.0/0", uint16(1+2*i), uint16(1+2*i), TCP))
		}
		return out
	}
	for name, p := range map[string]Policy{
		"rules without a network": {Mode: ModeNone, Deny: single(1)},
		"allow when open":         {Mode: ModeOpen, Allow: single(1)},
		"host bits":               {Mode: ModeAllow, Allow: []Rule{rule("10.0.0.1/8", 1, 1, TCP)}},
		"ports backwards":         {Mode: ModeAllow, Allow: []Rule{rule("10.0.0.0/8", 2, 1, TCP)}},
		"no protocol":             {Mode: ModeAllow, Allow: []Rule{rule("10.0.0.0/8", 1, 1, 0)}},
		"ports of ICMP":           {Mode: ModeAllow, Allow: []Rule{rule("10.0.0.0/8", 1, 1, ICMP)}},
		"no prefix":               {Mode: ModeAllow, Allow: []Rule{{High: 1, Protocols: TCP}}},
		"unknown mode":            {Mode: 7},
		"too many rules":          {Mode: ModeAllow, Allow: single(101)},
	} {
		if err := p.check(100); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := compile(Policy{Mode: ModeAllow, Allow: single(maxRanges)}); err != nil {
		t.Errorf("%d ranges: %v", maxRanges, err)
	}
	if _, err := compile(Policy{Mode: ModeAllow, Allow: single(maxRanges + 1)}); err == nil {
		t.Errorf("%d ranges: accepted", maxRanges+1)
	}
}

func TestRulesForAllOfIPv6SayNothingAboutIPv4(t *testing.T) {
	for _, wide := range []string{"::/0", "::/8", "::/80", "::fffe:0:0/95"} {
		c, err := compile(Policy{Mode: ModeAllow, Allow: []Rule{rule(wide, 0, 65535, AllProtocols)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := compiledVerdict(c, netip.MustParseAddr("1.2.3.4"), 80, TCP); got != egressRuleRULE_DEFAULT {
			t.Errorf("allow %s: verdict on 1.2.3.4 is %d", wide, got)
		}
	}
	set, err := reservedSet(nil, prefixes("::/0"))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := set[netip.MustParsePrefix("::ffff:0:0/96")]; !ok || got != egressRuleRULE_ALLOW {
		t.Errorf("reserving ::/0 reserves IPv4 (%d)", got)
	}
}

func BenchmarkCompile10000(b *testing.B) {
	p := manyRules(10000)
	for b.Loop() {
		if _, err := compile(p); err != nil {
			b.Fatal(err)
		}
	}
}

func manyRules(n int) Policy {
	p := Policy{Mode: ModeAllow}
	for i := range n {
		addr := netip.AddrFrom4([4]byte{203, byte(i >> 14), byte(i >> 6), byte(i<<2) | 1})
		p.Allow = append(p.Allow, Rule{netip.PrefixFrom(addr, 32), 443, 443, TCP})
	}
	return p
}
