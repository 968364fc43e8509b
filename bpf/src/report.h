// Reporting of refusals, bounded twice: per destination, so that a retry loop is one line with a count, and per slot, so
// that a scan cannot fill the ring that all jobs share.
#pragma once

#define SECOND 1000000000ULL
#define BURST_PER_DESTINATION 16
#define BURST_PER_SLOT 256

// The windows are updated without a lock: two processors may both count the last place in a window. That costs one event
// too many and nothing else.
static __noinline int report(struct event *e)
{
	struct slot *slot = bpf_map_lookup_elem(&tb_slots, &e->slot);
	struct recent_key key = {
		.addr = e->addr, .slot = e->slot, .port = e->port, .proto = e->proto, .hook = e->hook,
	};
	struct recent fresh = {};
	struct recent *recent;
	struct tallied t = {.remote = e->addr, .slot = e->slot, .port = e->port, .proto = e->proto, .rule = e->rule};

	count_flow(&t);
	e->ktime = bpf_ktime_get_ns();
	e->count = 1;
	if (slot) {
		key.generation = slot->generation;
		__sync_fetch_and_add(&slot->denied, 1);
	}
	recent = bpf_map_lookup_elem(&tb_recent, &key);
	if (!recent) {
		fresh.window = e->ktime;
		fresh.in_window = 1;
		bpf_map_update_elem(&tb_recent, &key, &fresh, BPF_ANY);
	} else {
		if (e->ktime - recent->window >= SECOND) {
			recent->window = e->ktime;
			recent->in_window = 0;
		}
		if (recent->in_window >= BURST_PER_DESTINATION)
			goto suppress;
		recent->in_window++;
		e->count += recent->suppressed;
		recent->suppressed = 0;
	}
	if (slot) {
		if (e->ktime - slot->window >= SECOND) {
			slot->window = e->ktime;
			slot->in_window = 0;
		}
		if (slot->in_window >= BURST_PER_SLOT)
			goto suppress;
		slot->in_window++;
	}
	if (bpf_ringbuf_output(&tb_events, e, sizeof(*e), 0)) {
		if (slot)
			__sync_fetch_and_add(&slot->lost, 1);
		return 0;
	}
	if (slot)
		__sync_fetch_and_add(&slot->reported, 1);
	return 0;

suppress:
	if (recent)
		__sync_fetch_and_add(&recent->suppressed, e->count);
	if (slot)
		__sync_fetch_and_add(&slot->suppressed, 1);
	return 0;
}
