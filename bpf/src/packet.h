// Packet hooks on the node's end of each jail's veth pair: the authority. tb_from_jail is the device's ingress (what the
// jail sends), tb_to_jail its egress. Accepting means TC_ACT_UNSPEC, which lets other programs on the hook have their say.
#pragma once

#define PASS (-1)
#define DROP 2

#define COUNT(slot, field, n)                                \
	do {                                                 \
		if (slot)                                    \
			__sync_fetch_and_add(&(slot)->field, n); \
	} while (0)

static __always_inline int mac_equal(const __u8 *a, const __u8 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4] && a[5] == b[5];
}

static __always_inline int is_echo_request(const struct packet *p)
{
	return p->family == AF_INET ? p->icmp_type == ICMP_ECHO : p->icmp_type == ICMPV6_ECHO_REQUEST;
}

static __always_inline int is_echo_reply(const struct packet *p)
{
	return p->family == AF_INET ? p->icmp_type == ICMP_ECHOREPLY : p->icmp_type == ICMPV6_ECHO_REPLY;
}

static __always_inline void remember_flow(const struct packet *p, __u32 ifindex, __u32 policy)
{
	struct flow_key key = {
		.remote = p->dst, .ifindex = ifindex, .local_port = p->src_port, .remote_port = p->dst_port,
		.proto = p->proto, .family = p->family,
	};
	struct flow fresh = {.policy = policy};
	struct flow *flow = bpf_map_lookup_elem(&tb_flows, &key);

	if (!flow || flow->policy != policy)
		bpf_map_update_elem(&tb_flows, &key, &fresh, BPF_ANY);
}

// flow_of finds the flow that an inbound packet belongs to.
static __always_inline struct flow *flow_of(const struct packet *p, __u32 ifindex)
{
	struct flow_key key = {
		.remote = p->src, .ifindex = ifindex, .local_port = p->dst_port, .remote_port = p->src_port,
		.proto = p->proto, .family = p->family,
	};

	if (p->proto != IPPROTO_UDP) { // the id of an echo is on both sides
		key.local_port = p->src_port;
		key.remote_port = 0;
	}
	return bpf_map_lookup_elem(&tb_flows, &key);
}

static __always_inline void remember_frag(const struct packet *p, const struct addr *remote, __u32 ifindex, __u32 policy,
					  __u8 inbound)
{
	struct frag_key key = {
		.remote = *remote, .ifindex = ifindex, .id = p->frag_id, .proto = p->proto, .inbound = inbound,
		.family = p->family,
	};
	struct frag value = {.policy = policy};

	bpf_map_update_elem(&tb_frags, &key, &value, BPF_ANY);
}

static __always_inline int is_known_frag(const struct packet *p, const struct addr *remote, __u32 ifindex, __u32 policy,
					 __u8 inbound)
{
	struct frag_key key = {
		.remote = *remote, .ifindex = ifindex, .id = p->frag_id, .proto = p->proto, .inbound = inbound,
		.family = p->family,
	};
	struct frag *frag = bpf_map_lookup_elem(&tb_frags, &key);

	return frag && frag->policy == policy;
}

static __noinline void report_packet(const struct packet *p, const struct veth *veth, __u64 ifindex_rule)
{
	struct event e = {
		.addr = p->dst, .slot = veth->slot, .policy = veth->policy, .ifindex = ifindex_rule >> 32,
		.port = p->dst_port, .family = p->family, .proto = p->proto, .rule = (__u8)ifindex_rule,
		.hook = HOOK_PACKET,
	};

	report(&e);
}

static __always_inline int judge_outbound(const struct packet *p, const struct veth *veth, __u32 ifindex)
{
	const struct addr *own = p->family == AF_INET ? &veth->addr4 : &veth->addr6;
	enum rule rule;

	if (!mac_equal(p->src_mac, veth->jail_mac) || !mac_equal(p->dst_mac, veth->node_mac))
		return DROP;
	if (!addr_equal(&p->src, own))
		return DROP;
	if (p->frag == FRAG_LATER)
		return is_known_frag(p, &p->dst, ifindex, veth->policy, 0) ? PASS : DROP;
	if (p->proto != IPPROTO_TCP && p->proto != IPPROTO_UDP && !is_echo_request(p))
		return DROP;
	rule = judge(veth->policy, &p->dst, (__u32)proto_bit(p->proto) << 16 | p->dst_port, veth->pins);
	if (rule != RULE_ALLOW) {
		// Of a TCP connection only its first packet is worth a line.
		if (p->proto != IPPROTO_TCP || (p->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
			report_packet(p, veth, (__u64)ifindex << 32 | rule);
		return DROP;
	}
	if (p->proto != IPPROTO_TCP)
		remember_flow(p, ifindex, veth->policy);
	if (p->frag == FRAG_FIRST)
		remember_frag(p, &p->dst, ifindex, veth->policy, 0);
	return PASS;
}

// is_own_error accepts an ICMP error about a packet that carries the jail's own source address: path MTU discovery and
// quick failures depend on these.
static __always_inline int is_own_error(struct __sk_buff *skb, const struct packet *p, const struct veth *veth)
{
	struct addr src;
	__u32 v4;

	if (p->family == AF_INET) {
		if (p->icmp_type != ICMP_DEST_UNREACH && p->icmp_type != ICMP_TIME_EXCEEDED)
			return 0;
		if (bpf_skb_load_bytes(skb, p->l4 + sizeof(struct icmphdr) + 12, &v4, sizeof(v4)))
			return 0;
		addr_from_v4(&src, v4);
		return addr_equal(&src, &veth->addr4);
	}
	if (p->icmp_type < ICMPV6_DEST_UNREACH || p->icmp_type > ICMPV6_TIME_EXCEED)
		return 0;
	if (bpf_skb_load_bytes(skb, p->l4 + 8 + 8, &src, sizeof(src)))
		return 0;
	return addr_equal(&src, &veth->addr6);
}

static __always_inline int judge_inbound(struct __sk_buff *skb, const struct packet *p, const struct veth *veth,
					 __u32 ifindex)
{
	const struct addr *own = p->family == AF_INET ? &veth->addr4 : &veth->addr6;
	struct flow *flow = 0;
	__u16 port;

	if (!addr_equal(&p->dst, own))
		return DROP;
	if (p->frag == FRAG_LATER)
		return is_known_frag(p, &p->src, ifindex, veth->policy, 1) ? PASS : DROP;
	if (p->proto == IPPROTO_TCP) {
		// Nobody opens a connection into a jail.
		if ((p->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
			return DROP;
	} else if (p->proto == IPPROTO_UDP || is_echo_reply(p)) {
		flow = flow_of(p, ifindex);
		if (!flow)
			return DROP;
	} else {
		return is_own_error(skb, p, veth) ? PASS : DROP;
	}
	// Only a peer that the policy lets the jail talk to may answer. What the flow began under was judged; under another
	// policy, since a running job's rules can change, it goes on where both allow its far end.
	if (!flow || flow->policy != veth->policy) {
		port = p->proto == IPPROTO_TCP || p->proto == IPPROTO_UDP ? p->src_port : 0;
		if (judge(veth->policy, &p->src, (__u32)proto_bit(p->proto) << 16 | port, veth->pins) != RULE_ALLOW)
			return DROP;
		if (flow)
			flow->policy = veth->policy;
	}
	if (p->frag == FRAG_FIRST)
		remember_frag(p, &p->src, ifindex, veth->policy, 1);
	return PASS;
}

SEC("tc")
int tb_from_jail(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	struct veth *veth = bpf_map_lookup_elem(&tb_veths, &ifindex);
	struct packet p = {};
	struct tallied t;
	struct slot *slot;
	int verdict = DROP;

	if (!veth)
		return DROP;
	slot = bpf_map_lookup_elem(&tb_slots, &veth->slot);
	if (!parse(skb, &p))
		verdict = judge_outbound(&p, veth, ifindex);
	if (verdict == PASS && is_spent(slot, veth->budget, skb->len)) {
		report_packet(&p, veth, (__u64)ifindex << 32 | RULE_BUDGET);
		verdict = DROP;
	}
	if (verdict == DROP) {
		COUNT(slot, tx_dropped, 1);
		return DROP;
	}
	COUNT(slot, tx_packets, 1);
	COUNT(slot, tx_bytes, skb->len);
	t = (struct tallied){.remote = p.dst, .slot = veth->slot, .len = skb->len, .port = p.dst_port, .proto = p.proto};
	count_flow(&t);
	return PASS;
}

SEC("tc")
int tb_to_jail(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	struct veth *veth = bpf_map_lookup_elem(&tb_veths, &ifindex);
	struct packet p = {};
	struct tallied t;
	struct slot *slot;
	int verdict = DROP;

	if (!veth)
		return DROP;
	slot = bpf_map_lookup_elem(&tb_slots, &veth->slot);
	if (!parse(skb, &p))
		verdict = judge_inbound(skb, &p, veth, ifindex);
	if (verdict == PASS && is_spent(slot, veth->budget, skb->len)) {
		p.dst = p.src; // the far end is what is reported
		p.dst_port = p.src_port;
		report_packet(&p, veth, (__u64)ifindex << 32 | RULE_BUDGET);
		verdict = DROP;
	}
	if (verdict == DROP) {
		COUNT(slot, rx_dropped, 1);
		return DROP;
	}
	COUNT(slot, rx_packets, 1);
	COUNT(slot, rx_bytes, skb->len);
	t = (struct tallied){.remote = p.src, .slot = veth->slot, .len = skb->len, .proto = p.proto, .inbound = 1};
	if (p.proto == IPPROTO_TCP || p.proto == IPPROTO_UDP) // else it is the id of an echo
		t.port = p.src_port;
	count_flow(&t);
	return PASS;
}
