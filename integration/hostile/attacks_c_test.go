package hostile

// Chapter C: the kernel's surface.
var attacksC = []attack{
	{id: "C", file: "c_surface.py", held: 135, rules: []string{"syscall.socket_filter", "syscall.merge", "syscall.bpf", "syscall.keyctl", "syscall.socket_family", "syscall.socket_raw", "syscall.tcp_ulp"}, weak: []string{
		"keyctl", "add_key", "request_key", "modify_ldt", "personality", "process_vm_writev", "memfd_secret",
		"socket AF_VSOCK *", "socket filter *", "merge *", "netlink *", "UDPLITE *", "MPTCP *",
	}},
}
