package resolver

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// maxLinks bounds a chain of aliases.
const maxLinks = 32

// found is what an upstream's answer says about the asked name.
type found struct {
	records []dns.RR // aliases in their order, then what was asked for
	taken   []netip.Addr
	addrs   []netip.Addr // to pin
	ttl     uint32       // the shortest of the records'
}

// answerTo picks what belongs to the question out of an answer: the chain of aliases that begins at the asked name, and the
// records at its end. Everything else an upstream may have put there is left out. passes decides on addresses.
func answerTo(q dns.Question, answer []dns.RR, passes func(netip.Addr) (ok, pin bool)) found {
	out := found{ttl: maxTTL}
	name := strings.ToLower(q.Name)
	keep := func(rr dns.RR) {
		if strings.EqualFold(rr.Header().Name, q.Name) {
			rr.Header().Name = q.Name // as the job spelled it
		}
		rr.Header().Ttl = min(rr.Header().Ttl, maxTTL)
		out.ttl = min(out.ttl, rr.Header().Ttl)
		out.records = append(out.records, rr)
	}
	for range maxLinks {
		alias := aliasOf(name, answer)
		if alias == nil || q.Qtype == dns.TypeCNAME {
			break
		}
		keep(alias)
		name = strings.ToLower(alias.Target)
	}
	for _, rr := range answer {
		h := rr.Header()
		if h.Rrtype != q.Qtype || h.Class != dns.ClassINET || !strings.EqualFold(h.Name, name) {
			continue
		}
		if addr, ok := addressIn(rr); ok {
			ok, pin := passes(addr)
			if !ok {
				out.taken = append(out.taken, addr)
				continue
			}
			if pin {
				out.addrs = append(out.addrs, addr)
			}
		}
		keep(rr)
	}
	return out
}

func aliasOf(name string, answer []dns.RR) *dns.CNAME {
	for _, rr := range answer {
		if c, ok := rr.(*dns.CNAME); ok && c.Hdr.Class == dns.ClassINET && strings.EqualFold(c.Hdr.Name, name) {
			return c
		}
	}
	return nil
}

// addressIn reads an address record. IPv4 in an IPv6 record is IPv4: the kernel makes the same of it.
func addressIn(rr dns.RR) (netip.Addr, bool) {
	var addr netip.Addr
	switch rr := rr.(type) {
	case *dns.A:
		addr, _ = netip.AddrFromSlice(rr.A)
	case *dns.AAAA:
		addr, _ = netip.AddrFromSlice(rr.AAAA)
	default:
		return addr, false
	}
	return addr.Unmap(), true
}

var shared = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), // between carriers and their customers (RFC 6598)
	netip.MustParsePrefix("198.18.0.0/15"), // tests inside one organisation (RFC 2544)
	netip.MustParsePrefix("192.0.0.0/24"),  // protocol assignments
}

// isInternal tells addresses that no public name has any business to have.
func isInternal(a netip.Addr) bool {
	if inner, ok := bpf.Inside64(a); ok {
		a = inner
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return true
	}
	for _, p := range shared {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
