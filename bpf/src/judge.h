// The verdict on one destination: metadata, then the node's own, then the request's deny, then its allow, then the job's
// pins, then the policy's default. Both the socket hooks and the packet hooks ask here.
#pragma once

static __always_inline int addr_equal(const struct addr *a, const struct addr *b)
{
	return a->w[0] == b->w[0] && a->w[1] == b->w[1] && a->w[2] == b->w[2] && a->w[3] == b->w[3];
}

static __always_inline void addr_from_v4(struct addr *a, __u32 v4)
{
	a->w[0] = 0;
	a->w[1] = 0;
	a->w[2] = bpf_htonl(0xffff);
	a->w[3] = v4;
}

// proto_bit is 0 for a protocol that no rule can name.
static __always_inline __u8 proto_bit(__u8 proto)
{
	switch (proto) {
	case IPPROTO_TCP:
		return PROTO_TCP;
	case IPPROTO_UDP:
		return PROTO_UDP;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return PROTO_ICMP;
	}
	return 0;
}

// is_spent says whether len more bytes are too many. From the first packet that is, nothing goes any more, smaller ones
// included, until the budget is raised. Bytes are counted without a lock, so each processor may let one packet too many pass.
static __always_inline int is_spent(struct slot *slot, __u64 budget, __u32 len)
{
	if (!budget)
		return 0;
	if (!slot)
		return 1;
	if (slot->spent >= budget)
		return 1;
	if (slot->tx_bytes + slot->rx_bytes + len <= budget)
		return 0;
	slot->spent = budget;
	return 1;
}

// default_rule is the verdict where no rule of the request matches.
static __noinline enum rule default_rule(enum mode mode)
{
	return mode == MODE_OPEN ? RULE_ALLOW : RULE_DEFAULT;
}

// match finds the range that holds for a port. Ranges are disjoint for each protocol.
static __always_inline struct range *match(struct ports *ports, __u32 bits)
{
	__u8 protos = bits >> 16;
	__u16 port = bits;
	__u32 i;

	for (i = 0; i < MAX_RANGES; i++) {
		struct range *r = &ports->ranges[i];

		if (i >= ports->count)
			break;
		if (r->protos & protos && r->low <= port && port <= r->high)
			return r;
	}
	return 0;
}

#define PIN_TICK 1000000000ULL

// is_pinned also notes that the pin is in use, once a second at most: its memory is shared by all processors. Global as
// judge_form is.
__noinline int is_pinned(__u32 set, const struct addr *a, __u32 bits)
{
	struct pin_key key = {.set = set};
	struct pin *pin;
	__u64 now;

	if (!set || !a)
		return 0;
	key.addr = *a;
	pin = bpf_map_lookup_elem(&tb_pins, &key);
	if (!pin || !match(&pin->ports, bits))
		return 0;
	now = bpf_ktime_get_ns();
	if (now - pin->used >= PIN_TICK)
		pin->used = now;
	return 1;
}

// judge_form judges one written form of an address. bits is proto_bit << 16 | port: a subprogram takes few arguments. It is
// global, not static, so that the verifier walks it once and not for every state of every caller: loading takes a tenth of
// the time. For that it must live with a pointer that might be null.
__noinline enum rule judge_form(__u32 id, const struct addr *a, __u32 bits, __u32 pins)
{
	struct reserved_key reserved = {.prefixlen = 128};
	struct rule_key key = {.prefixlen = 160, .policy = id};
	struct ports_key lists = {.policy = id};
	struct policy *policy;
	struct ports *ports;
	struct range *range;
	__u32 *found;

	if (!a)
		return RULE_NONE;
	reserved.addr = *a;
	key.addr = *a;
	found = bpf_map_lookup_elem(&tb_reserved, &reserved);
	if (found && *found != RULE_ALLOW)
		return *found;
	policy = bpf_map_lookup_elem(&tb_policies, &id);
	if (!policy || policy->mode == MODE_NONE)
		return RULE_NONE;
	if (!(bits >> 16))
		return RULE_DEFAULT;
	if (!policy->has_rules)
		goto none_matched;
	found = bpf_map_lookup_elem(&tb_rules, &key);
	if (!found)
		goto none_matched;
	lists.list = *found;
	ports = bpf_map_lookup_elem(&tb_ports, &lists);
	if (!ports)
		return RULE_DEFAULT; // half a policy is none
	range = match(ports, bits);
	if (range)
		return range->deny ? RULE_DENY : RULE_ALLOW;
none_matched:
	return is_pinned(pins, a, bits) ? RULE_ALLOW : default_rule(policy->mode);
}

// judge also sees through 64:ff9b::/96 (RFC 6052): a NAT64 gateway sends such a packet to the IPv4 address inside. A
// hard refusal of either form holds; an allow of either form is enough otherwise.
static __noinline enum rule judge(__u32 id, const struct addr *a, __u32 bits, __u32 pins)
{
	enum rule rule = judge_form(id, a, bits, pins);
	struct addr inner;
	enum rule second;

	if (a->w[0] != bpf_htonl(0x64ff9b) || a->w[1] || a->w[2])
		return rule;
	if (rule != RULE_ALLOW && rule != RULE_DEFAULT)
		return rule;
	addr_from_v4(&inner, a->w[3]);
	second = judge_form(id, &inner, bits, pins);
	if (second != RULE_ALLOW && second != RULE_DEFAULT)
		return second;
	return rule == RULE_ALLOW || second == RULE_ALLOW ? RULE_ALLOW : RULE_DEFAULT;
}
