package bpf

import (
	"encoding/binary"
	"net/netip"
)

// addrOf is how the programs see an address: 16 bytes in network order, IPv4 as ::ffff:a.b.c.d. The zero Addr is all
// zeros, which no packet carries as a peer.
func addrOf(a netip.Addr) (out egressAddr) {
	if !a.IsValid() {
		return out
	}
	b := a.As16()
	for i := range out.W {
		out.W[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return out
}

// as16 undoes addrOf.
func (a egressAddr) as16() (b [16]byte) {
	for i, w := range a.W {
		binary.NativeEndian.PutUint32(b[4*i:], w)
	}
	return b
}

// widen turns a prefix into the 128-bit form of addrOf, so that 10.0.0.0/8 and ::ffff:10.0.0.0/104 are one key.
func widen(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4() {
		return netip.PrefixFrom(netip.AddrFrom16(p.Addr().As16()), p.Bits()+96)
	}
	return p
}
