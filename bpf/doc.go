// Package bpf is tolbooth's egress control in the kernel: the programs (C, in src/) and their Go face.
//
// It owns the verdict on every destination a job talks to. The same maps are read by two sets of programs: hooks on
// connect(2) and sendmsg(2), attached once to the parent of all jobs' control groups, which answer EPERM at once and know
// which process asked; and programs on the node's end of each job's veth pair, which judge every packet and are the
// authority. What neither map knows is refused.
//
// The order of a verdict: cloud metadata (always refused), the node's own addresses and internal ranges (always refused),
// the request's deny rules, its allow rules, the job's pins, then the policy's default. Only loopback and the job's own
// addresses come before that.
//
// It never creates control groups, namespaces or links, never decides what a policy says, and never logs. The agent calls
// it; package netns only shares its Rule type.
//
// Privileges: CAP_BPF and CAP_NET_ADMIN, and CAP_PERFMON below kernel 5.16; in practice root in the initial user namespace.
// Kernel 5.15 or newer. Packet programs are attached by clsact, or by tcx (6.6) where there is no clsact; Hook says which.
//
// Lifetime: attachments are made without links, so they belong to the control group and to the device and outlive the
// agent: a killed agent leaves its jobs exactly as confined as they were, with no file system to depend on. The next Load
// finds the maps through the attached programs, takes them over with their policies and counters, and replaces each
// program in place. Close leaves everything attached; Detach ends it.
//
// Concurrency: every method may be called from any goroutine. BindVeth resolves an interface index in the network
// namespace of the calling thread, which must be the one the veth's node end is in.
package bpf
