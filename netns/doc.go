// Package netns is the network of one jail: its namespace, the veth pair into it, the addresses on both ends, and the
// node-side rules that let its packets leave.
//
// A Namespace is made empty and stays so when a job has no network. Connect puts a veth pair into it: the node's end is
// named tb<instance><index>, the jail's end is eth0, and both get one IPv4 and one IPv6 address by arithmetic from the
// index. Neighbour entries are permanent on both sides, so neither ARP nor neighbour discovery ever runs and both can be
// dropped, and addresses skip duplicate detection, so the first packet leaves at once.
//
// Each namespace has the sockets of a jail's resolver (package resolver) on its own loopback, which works without a veth
// too; Pins are the jail's pinned addresses in the kernel, with a way to tell which are in use.
//
// It decides nothing about destinations: that is package bpf, whose programs Connect's guard must have attached before the
// link comes up. It never mounts a namespace on a path, never deletes a veth of a running jail, and never changes a host
// setting unless told to (SetForwarding). ParseRule, ParseNameRule and ParsePolicy are pure.
//
// The agent calls it. Privileges: CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_BIND_SERVICE in the initial user namespace. Kernel
// 5.15 or newer.
//
// Lifetime: closing a Namespace, once the jail's processes are dead, is what removes its veth; the kernel does that in its
// own time (about 10 ms), which is why an index is never reused before its old name is gone. What a killed agent leaves is
// found by name: Open with the same instance, then Sweep.
//
// Concurrency: Manager and Pool may be used from any goroutine. Open must be called on a thread in the node's namespace.
package netns
