// Shapes shared with package bpf's Go side. bpf2go generates the Go types from the BTF of this file, so there is one
// definition of each.
#pragma once

// An address in network byte order. IPv4 is kept as ::ffff:a.b.c.d, so that the mapped form of an address can never be
// judged differently from the plain one.
struct addr {
	__u32 w[4];
};

enum rule {
	RULE_ALLOW = 0,
	RULE_NONE = 1,     // the job has no network
	RULE_METADATA = 2, // cloud metadata, link-local
	RULE_NODE = 3,     // the node's own addresses, internal ranges
	RULE_DENY = 4,     // the request's deny list
	RULE_DEFAULT = 5,  // not in the request's allow list
	RULE_BUDGET = 6,   // allowed, but the job's bytes are used up
};

enum mode {
	MODE_NONE = 0,
	MODE_ALLOW = 1,
	MODE_OPEN = 2,
};

enum hook {
	HOOK_CONNECT = 1,
	HOOK_SENDMSG = 2,
	HOOK_PACKET = 3,
};

// Bits of range.protos.
#define PROTO_TCP 1
#define PROTO_UDP 2
#define PROTO_ICMP 4

#define MAX_RANGES 64

// A policy's head. digest lets a restarted agent recognise the policy.
struct policy {
	__u8 mode;
	__u8 has_rules;
	__u8 pad[6];
	__u8 digest[32];
};

struct rule_key {
	__u32 prefixlen; // 32 for the policy, plus the prefix
	__u32 policy;
	struct addr addr;
};

struct reserved_key {
	__u32 prefixlen;
	struct addr addr;
};

struct ports_key {
	__u32 policy;
	__u32 list;
};

struct range {
	__u16 low; // inclusive, host byte order; ICMP has port 0
	__u16 high;
	__u8 protos;
	__u8 deny;
	__u8 pad[2];
};

// The disjoint port ranges that hold for one prefix, those of every wider prefix of the policy included.
struct ports {
	__u32 count;
	__u32 pad;
	struct range ranges[MAX_RANGES];
};

// Addresses that one job may reach beside its policy, because its resolver gave them to it. Sets are not shared; 0 is none.
struct pin_key {
	__u32 set;
	struct addr addr;
};

struct pin {
	__u64 used; // CLOCK_MONOTONIC of the last packet or connect, to a second
	struct ports ports;
};

// A job's control group. The addresses are the job's own: it may talk to itself.
struct binding {
	__u32 policy;
	__u32 slot;
	struct addr addr4;
	struct addr addr6;
	__u32 on_node; // no network namespace of its own: loopback is the node's
	__u32 pins;
	__u64 budget; // bytes sent and received together, 0: no bound
};

struct veth {
	__u32 policy;
	__u32 slot;
	struct addr addr4;
	struct addr addr6;
	__u8 jail_mac[6];
	__u8 node_mac[6];
	__u32 pins;
	__u64 budget; // bytes sent and received together, 0: no bound
};

// Everything counted for one slot. Set to zero when a job is bound; generation is then the job's control group id.
struct slot {
	__u64 tx_bytes;
	__u64 tx_packets;
	__u64 rx_bytes;
	__u64 rx_packets;
	__u64 tx_dropped;
	__u64 rx_dropped;
	__u64 denied;     // refusals, reported or not
	__u64 reported;   // events handed to the ring
	__u64 suppressed; // refusals left out by the rate limits
	__u64 lost;       // events the full ring had no room for
	__u64 window;     // start of the current second of the event budget
	__u64 in_window;
	__u64 generation;
	__u64 untallied; // packets and refusals that found no place for their far end
	__u64 spent; // the largest budget that was used up
};

// Places for far ends that one slot has; a power of two.
#define TALLIES 64

// What went to and from one far end.
struct tally {
	__u64 generation; // of the slot; another one: the place is free
	struct addr remote;
	__u64 tx_bytes;
	__u64 tx_packets;
	__u64 rx_bytes;
	__u64 rx_packets;
	__u64 refused; // connections refused and packets dropped
	__u16 port;
	__u8 proto;
	__u8 rule; // the last refusal's
	__u32 pad;
};

struct recent_key {
	__u64 generation;
	struct addr addr;
	__u32 slot;
	__u16 port;
	__u8 proto;
	__u8 hook;
};

struct recent {
	__u64 window;
	__u32 in_window;
	__u32 suppressed;
};

struct flow_key {
	struct addr remote;
	__u32 ifindex;
	__u16 local_port; // ICMP: echo id
	__u16 remote_port;
	__u8 proto;
	__u8 family;
	__u8 pad[2];
};

struct flow {
	__u32 policy;
};

struct frag_key {
	struct addr remote;
	__u32 ifindex;
	__u32 id;
	__u8 proto;
	__u8 inbound;
	__u8 family;
	__u8 pad;
};

struct frag {
	__u32 policy;
};

struct event {
	__u64 ktime; // CLOCK_MONOTONIC, ns
	__u64 cgroup;
	struct addr addr;
	__u32 slot;
	__u32 policy;
	__u32 ifindex;
	__u32 tgid;
	__u32 count; // refusals this event stands for
	__u16 port;  // host byte order
	__u8 family;
	__u8 proto;
	__u8 rule;
	__u8 hook;
	__u8 pad[6];
	__u8 comm[16];
};
