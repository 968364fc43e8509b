package policy

import "golang.org/x/sys/unix"

// typeMask is the part of socket's second argument that is the type; the rest is SOCK_CLOEXEC and SOCK_NONBLOCK.
const typeMask = 0xf

func family(in ...uint64) Match   { return int32Arg(0, in...) }
func kind(in ...uint64) Match     { return bits(1, typeMask, in...) }
func protocol(in ...uint64) Match { return int32Arg(2, in...) }

func unixSocket() Case {
	return allow("a unix socket", family(unix.AF_UNIX), kind(unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET))
}

// socketCases decide which network protocols of the kernel a program can reach. What it may say to whom through them is
// decided by the jail's network, not here.
func socketCases() []Case {
	return []Case{
		unixSocket(),
		allow("a TCP socket", family(unix.AF_INET, unix.AF_INET6), kind(unix.SOCK_STREAM), protocol(0, unix.IPPROTO_TCP)),
		allow("a UDP socket", family(unix.AF_INET, unix.AF_INET6), kind(unix.SOCK_DGRAM), protocol(0, unix.IPPROTO_UDP)),
		// Interface and address lists: getaddrinfo, net.Interfaces and the like. Changes need a capability.
		allow("route netlink", family(unix.AF_NETLINK), kind(unix.SOCK_RAW, unix.SOCK_DGRAM), protocol(unix.NETLINK_ROUTE)),
		// Go servers try it before TCP, once, and stop trying when the kernel says that it has no such protocol.
		deny("socket_protocol", unix.EPROTONOSUPPORT, "multipath TCP",
			"multipath TCP is not filtered as TCP is; programs fall back to TCP",
			family(unix.AF_INET, unix.AF_INET6), kind(unix.SOCK_STREAM), protocol(unix.IPPROTO_MPTCP)),
		deny("netlink_protocol", unix.EPERM, "any other netlink",
			"only NETLINK_ROUTE is there, for reading addresses and routes; the other protocols configure the kernel",
			family(unix.AF_NETLINK)),
		deny("socket_raw", unix.EPERM, "a raw or packet socket of these families",
			"raw sockets forge and overhear packets; use TCP or UDP",
			family(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6), kind(unix.SOCK_RAW, unix.SOCK_PACKET)),
		deny("socket_protocol", unix.EPERM, "any other protocol of these families (SCTP, DCCP, UDP-Lite, ICMP, SMC, …)",
			"only TCP and UDP are there; use one of them",
			family(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6)),
		deny("socket_family", unix.EPERM, "",
			"only unix, IPv4, IPv6 and route-netlink sockets are there, since the other families are seldom used and often attacked; use one of those"),
	}
}

// sockets are the calls that make sockets, and the one that turns a TCP socket into something else.
func sockets() []entry {
	return []entry{
		{"socket", socketCases()},
		{"socketpair", []Case{
			allow("a pair of unix sockets", family(unix.AF_UNIX)),
			deny("socket_family", unix.EPERM, "",
				"only unix sockets come in pairs here; use AF_UNIX"),
		}},
		{"setsockopt", optionCases()},
	}
}

// optionCases: an upper-layer protocol turns a TCP socket into one that socket would refuse (AF_SMC), or into kernel TLS. A
// filter on a socket is compiled into room that all programs on the node share and no limit of a job counts: a thousand sockets
// of one process held 66 MB of the 504 that there are, ten processes all of it, so that no seccomp filter could be loaded any
// more; and when they ended, the kernel freed it for minutes under a lock that the next jail's filter waits for.
func optionCases() []Case {
	return []Case{
		deny("tcp_ulp", unix.ENOPROTOOPT, "TCP_ULP",
			"protocols on top of TCP run in the kernel (TLS, SMC); TLS libraries do the work themselves instead",
			int32Arg(1, unix.SOL_TCP), int32Arg(2, unix.TCP_ULP)),
		deny("socket_filter", unix.EPERM, "SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF",
			"the kernel compiles it into room that the whole node shares and no limit of a job counts; look at what arrives in the program itself",
			int32Arg(1, unix.SOL_SOCKET),
			int32Arg(2, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF)),
		allow(""),
	}
}
