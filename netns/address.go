package netns

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// Default pools. 198.18.0.0/15 is set aside for tests inside one organisation (RFC 2544) and so collides with nobody's
// network; the IPv6 prefix is a unique local one.
var (
	defaultPool4 = netip.MustParsePrefix("198.19.0.0/16")
	defaultPool6 = netip.MustParsePrefix("fd74:6f6c:6c62::/64")
)

// A link's index is 1..maxIndex: 0 is the network's own address, and the last two of a /16 are the gateway and broadcast.
const maxIndex = 0xfffd

// plan turns an index into addresses. Both pools have room for 16 bits.
type plan struct {
	pool4, pool6 netip.Prefix
}

func newPlan(pool4, pool6 netip.Prefix) (plan, error) {
	if !pool4.Addr().Is4() || pool4.Bits() > 16 || pool4 != pool4.Masked() {
		return plan{}, fmt.Errorf("IPv4 pool %s: want a network of /16 or wider", pool4)
	}
	if !pool6.Addr().Is6() || pool6.Addr().Is4In6() || pool6.Bits() > 64 || pool6 != pool6.Masked() {
		return plan{}, fmt.Errorf("IPv6 pool %s: want a network of /64 or wider", pool6)
	}
	return plan{pool4, pool6}, nil
}

func (p plan) addr4(index uint16) netip.Addr {
	b := p.pool4.Addr().As4()
	binary.BigEndian.PutUint16(b[2:], index)
	return netip.AddrFrom4(b)
}

func (p plan) addr6(index uint32) netip.Addr {
	b := p.pool6.Addr().As16()
	binary.BigEndian.PutUint32(b[12:], index)
	return netip.AddrFrom16(b)
}

func (p plan) jail4(index uint16) netip.Addr { return p.addr4(index) }
func (p plan) jail6(index uint16) netip.Addr { return p.addr6(uint32(index)) }
func (p plan) gateway4() netip.Addr          { return p.addr4(0xfffe) }
func (p plan) gateway6() netip.Addr          { return p.addr6(0xfffffffe) }

// Hardware addresses are locally administered (bit 1 of the first byte) and never leave the pair.
func jailMAC(index uint16) net.HardwareAddr {
	return net.HardwareAddr{0x02, 't', 'b', 'j', byte(index >> 8), byte(index)}
}

func nodeMAC(index uint16) net.HardwareAddr {
	return net.HardwareAddr{0x02, 't', 'b', 'n', byte(index >> 8), byte(index)}
}

// host is a prefix of a single address.
func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}
