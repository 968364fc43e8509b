// Socket hooks, attached once to the parent of every job's control group. They answer EPERM at once and know who asked;
// the packet hooks remain the authority for what gets past them.
#pragma once

static __always_inline int is_loopback(const struct addr *a)
{
	if (a->w[0] || a->w[1])
		return 0;
	if (a->w[2] == 0) // :: and ::1; the kernel takes the unspecified address for loopback
		return a->w[3] == 0 || a->w[3] == bpf_htonl(1);
	if (a->w[2] != bpf_htonl(0xffff))
		return 0;
	return a->w[3] == 0 || (a->w[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
}

static __noinline int judge_socket(struct bpf_sock_addr *ctx, const struct addr *a, enum hook hook)
{
	__u64 cgroup = bpf_get_current_cgroup_id();
	struct event e = {.addr = *a, .cgroup = cgroup, .slot = ~0U, .hook = hook};
	struct binding *job;
	__u32 pins = 0;

	job = bpf_map_lookup_elem(&tb_cgroups, &cgroup);
	if (is_loopback(a) && !(job && job->on_node))
		return 1;
	e.proto = ctx->protocol;
	e.port = e.proto == IPPROTO_TCP || e.proto == IPPROTO_UDP ? bpf_ntohs(ctx->user_port) : 0;
	e.family = a->w[0] == 0 && a->w[1] == 0 && a->w[2] == bpf_htonl(0xffff) ? AF_INET : AF_INET6;
	if (job) {
		e.slot = job->slot;
		e.policy = job->policy;
		pins = job->pins;
		if (!job->on_node && (addr_equal(a, &job->addr4) || addr_equal(a, &job->addr6)))
			return 1;
	}
	// An unknown group has policy 0, which is never in the map: refused as "no network".
	e.rule = judge(e.policy, a, (__u32)proto_bit(e.proto) << 16 | e.port, pins);
	if (e.rule == RULE_ALLOW) {
		if (!job || !is_spent(bpf_map_lookup_elem(&tb_slots, &e.slot), job->budget, 0))
			return 1;
		e.rule = RULE_BUDGET;
	}
	e.tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(e.comm, sizeof(e.comm));
	report(&e);
	return 0;
}

static __always_inline int judge_v4(struct bpf_sock_addr *ctx, enum hook hook)
{
	struct addr a;

	addr_from_v4(&a, ctx->user_ip4);
	return judge_socket(ctx, &a, hook);
}

static __always_inline int judge_v6(struct bpf_sock_addr *ctx, enum hook hook)
{
	struct addr a;

	a.w[0] = ctx->user_ip6[0];
	a.w[1] = ctx->user_ip6[1];
	a.w[2] = ctx->user_ip6[2];
	a.w[3] = ctx->user_ip6[3];
	return judge_socket(ctx, &a, hook);
}

SEC("cgroup/connect4")
int tb_connect4(struct bpf_sock_addr *ctx)
{
	return judge_v4(ctx, HOOK_CONNECT);
}

SEC("cgroup/connect6")
int tb_connect6(struct bpf_sock_addr *ctx)
{
	return judge_v6(ctx, HOOK_CONNECT);
}

SEC("cgroup/sendmsg4")
int tb_sendmsg4(struct bpf_sock_addr *ctx)
{
	return judge_v4(ctx, HOOK_SENDMSG);
}

SEC("cgroup/sendmsg6")
int tb_sendmsg6(struct bpf_sock_addr *ctx)
{
	return judge_v6(ctx, HOOK_SENDMSG);
}
