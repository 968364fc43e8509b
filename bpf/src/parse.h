// Parsing of one frame. Only what a jail has business sending is understood: Ethernet, IPv4 without options (source
// routing is an option), IPv6 without extension headers other than Fragment, then TCP, UDP or ICMP. Everything else is an
// error, and an error is a drop. Headers are copied out with bpf_skb_load_bytes, which works on paged packets too.
#pragma once

#define FRAG_NONE 0
#define FRAG_FIRST 1
#define FRAG_LATER 2

struct packet {
	struct addr src;
	struct addr dst;
	__u32 frag_id;
	__u32 l4; // offset of the transport header
	__u16 src_port;
	__u16 dst_port;
	__u8 family;
	__u8 proto;
	__u8 frag;
	__u8 icmp_type;
	__u8 tcp_flags;
	__u8 src_mac[6];
	__u8 dst_mac[6];
};

#define TCP_SYN 0x02
#define TCP_ACK 0x10

static __always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *p)
{
	struct iphdr ip;
	__u16 frag;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return -1;
	if (ip.version != 4 || ip.ihl != 5)
		return -1;
	p->family = AF_INET;
	p->proto = ip.protocol;
	p->l4 = ETH_HLEN + sizeof(ip);
	addr_from_v4(&p->src, ip.saddr);
	addr_from_v4(&p->dst, ip.daddr);
	frag = bpf_ntohs(ip.frag_off);
	p->frag_id = ip.id;
	if (frag & 0x1fff)
		p->frag = FRAG_LATER;
	else if (frag & 0x2000)
		p->frag = FRAG_FIRST;
	return 0;
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *p)
{
	struct {
		__u8 next;
		__u8 reserved;
		__be16 offset;
		__be32 id;
	} frag;
	struct ipv6hdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return -1;
	if (ip.version != 6)
		return -1;
	p->family = AF_INET6;
	p->proto = ip.nexthdr;
	p->l4 = ETH_HLEN + sizeof(ip);
	__builtin_memcpy(&p->src, &ip.saddr, sizeof(p->src));
	__builtin_memcpy(&p->dst, &ip.daddr, sizeof(p->dst));
	// An IPv4-mapped address has no place in a packet; accepting one would let a jail be judged by the wrong table.
	if (!p->src.w[0] && !p->src.w[1] && p->src.w[2] == bpf_htonl(0xffff))
		return -1;
	if (!p->dst.w[0] && !p->dst.w[1] && p->dst.w[2] == bpf_htonl(0xffff))
		return -1;
	if (p->proto != IPPROTO_FRAGMENT)
		return 0;
	if (bpf_skb_load_bytes(skb, p->l4, &frag, sizeof(frag)))
		return -1;
	p->proto = frag.next;
	p->l4 += sizeof(frag);
	p->frag_id = frag.id;
	p->frag = bpf_ntohs(frag.offset) & 0xfff8 ? FRAG_LATER : FRAG_FIRST;
	return 0;
}

static __always_inline int parse_transport(struct __sk_buff *skb, struct packet *p)
{
	struct icmphdr icmp;
	struct tcphdr tcp;
	struct udphdr udp;

	switch (p->proto) {
	case IPPROTO_TCP:
		// TCP sets its segment size by the path: a fragmented segment is an evasion, not traffic.
		if (p->frag != FRAG_NONE || bpf_skb_load_bytes(skb, p->l4, &tcp, sizeof(tcp)))
			return -1;
		p->src_port = bpf_ntohs(tcp.source);
		p->dst_port = bpf_ntohs(tcp.dest);
		return bpf_skb_load_bytes(skb, p->l4 + 13, &p->tcp_flags, 1) ? -1 : 0;
	case IPPROTO_UDP:
		if (bpf_skb_load_bytes(skb, p->l4, &udp, sizeof(udp)))
			return -1;
		p->src_port = bpf_ntohs(udp.source);
		p->dst_port = bpf_ntohs(udp.dest);
		return 0;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if ((p->proto == IPPROTO_ICMP) != (p->family == AF_INET))
			return -1;
		if (bpf_skb_load_bytes(skb, p->l4, &icmp, sizeof(icmp)))
			return -1;
		p->icmp_type = icmp.type;
		p->src_port = bpf_ntohs(icmp.echo_id);
		return 0;
	}
	return -1;
}

static __noinline int parse(struct __sk_buff *skb, struct packet *p)
{
	struct ethhdr eth;
	int err;

	if (skb->vlan_present || bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return -1;
	__builtin_memcpy(p->src_mac, eth.h_source, ETH_ALEN);
	__builtin_memcpy(p->dst_mac, eth.h_dest, ETH_ALEN);
	if (eth.h_proto == bpf_htons(ETH_P_IP))
		err = parse_ipv4(skb, p);
	else if (eth.h_proto == bpf_htons(ETH_P_IPV6))
		err = parse_ipv6(skb, p);
	else
		return -1; // ARP too: both ends have permanent neighbour entries
	if (err || p->frag == FRAG_LATER)
		return err;
	return parse_transport(skb, p);
}
