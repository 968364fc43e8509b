// What went to and from each far end, for the job's flow summary. A slot has TALLIES places; a far end is looked for in
// TALLY_PROBES of them, and what finds no place is counted as untallied. Nothing is decided here.
#pragma once

#define TALLY_PROBES 8
#define TALLY_CLAIMED (~0ULL)

struct tallied {
	struct addr remote;
	__u32 slot;
	__u32 len;
	__u16 port;
	__u8 proto;
	__u8 rule; // RULE_ALLOW: it passed
	__u8 inbound;
	__u8 pad[3];
};

static __always_inline int is_tally_of(const struct tally *y, const struct tallied *t, __u64 generation)
{
	return y->generation == generation && addr_equal(&y->remote, &t->remote) && y->port == t->port && y->proto == t->proto;
}

// Global, so that the verifier walks it once.
__noinline int count_flow(const struct tallied *t)
{
	__u32 hash, i;
	__u64 generation, old;
	struct slot *slot;
	__u32 id;

	if (!t)
		return 0;
	id = t->slot;
	slot = bpf_map_lookup_elem(&tb_slots, &id);
	if (!slot)
		return 0;
	generation = slot->generation;
	hash = (t->remote.w[0] ^ t->remote.w[1] ^ t->remote.w[2] ^ t->remote.w[3]) * 0x9e3779b1 + t->port * 0x85ebca6b + t->proto;
	hash ^= hash >> 15;
	for (i = 0; i < TALLY_PROBES; i++) {
		__u32 at = id * TALLIES + ((hash + i) & (TALLIES - 1));
		struct tally *y = bpf_map_lookup_elem(&tb_tallies, &at);

		if (!y)
			return 0;
		if (!is_tally_of(y, t, generation)) {
			old = y->generation;
			if (old == generation || old == TALLY_CLAIMED)
				continue;
			// A place that an earlier job left. Whoever gets it writes it, and nobody reads it before the generation says so.
			if (__sync_val_compare_and_swap(&y->generation, old, TALLY_CLAIMED) != old)
				continue;
			y->remote = t->remote;
			y->port = t->port;
			y->proto = t->proto;
			y->rule = RULE_ALLOW;
			y->tx_bytes = y->tx_packets = y->rx_bytes = y->rx_packets = y->refused = 0;
			__sync_val_compare_and_swap(&y->generation, TALLY_CLAIMED, generation);
		}
		if (t->rule != RULE_ALLOW) {
			y->rule = t->rule;
			__sync_fetch_and_add(&y->refused, 1);
		} else if (t->inbound) {
			__sync_fetch_and_add(&y->rx_bytes, t->len);
			__sync_fetch_and_add(&y->rx_packets, 1);
		} else {
			__sync_fetch_and_add(&y->tx_bytes, t->len);
			__sync_fetch_and_add(&y->tx_packets, 1);
		}
		return 0;
	}
	__sync_fetch_and_add(&slot->untallied, 1);
	return 0;
}
