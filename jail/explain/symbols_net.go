package explain

import "golang.org/x/sys/unix"

// Address families (linux/socket.h).
var families = []named{
	{unix.AF_UNSPEC, "AF_UNSPEC"},
	{unix.AF_UNIX, "AF_UNIX"},
	{unix.AF_INET, "AF_INET"},
	{unix.AF_AX25, "AF_AX25"},
	{unix.AF_IPX, "AF_IPX"},
	{unix.AF_APPLETALK, "AF_APPLETALK"},
	{unix.AF_NETROM, "AF_NETROM"},
	{unix.AF_BRIDGE, "AF_BRIDGE"},
	{unix.AF_ATMPVC, "AF_ATMPVC"},
	{unix.AF_X25, "AF_X25"},
	{unix.AF_INET6, "AF_INET6"},
	{unix.AF_ROSE, "AF_ROSE"},
	{unix.AF_DECnet, "AF_DECnet"},
	{unix.AF_NETBEUI, "AF_NETBEUI"},
	{unix.AF_SECURITY, "AF_SECURITY"},
	{unix.AF_KEY, "AF_KEY"},
	{unix.AF_NETLINK, "AF_NETLINK"},
	{unix.AF_PACKET, "AF_PACKET"},
	{unix.AF_ASH, "AF_ASH"},
	{unix.AF_ECONET, "AF_ECONET"},
	{unix.AF_ATMSVC, "AF_ATMSVC"},
	{unix.AF_RDS, "AF_RDS"},
	{unix.AF_SNA, "AF_SNA"},
	{unix.AF_IRDA, "AF_IRDA"},
	{unix.AF_PPPOX, "AF_PPPOX"},
	{unix.AF_WANPIPE, "AF_WANPIPE"},
	{unix.AF_LLC, "AF_LLC"},
	{unix.AF_IB, "AF_IB"},
	{unix.AF_MPLS, "AF_MPLS"},
	{unix.AF_CAN, "AF_CAN"},
	{unix.AF_TIPC, "AF_TIPC"},
	{unix.AF_BLUETOOTH, "AF_BLUETOOTH"},
	{unix.AF_IUCV, "AF_IUCV"},
	{unix.AF_RXRPC, "AF_RXRPC"},
	{unix.AF_ISDN, "AF_ISDN"},
	{unix.AF_PHONET, "AF_PHONET"},
	{unix.AF_IEEE802154, "AF_IEEE802154"},
	{unix.AF_CAIF, "AF_CAIF"},
	{unix.AF_ALG, "AF_ALG"},
	{unix.AF_NFC, "AF_NFC"},
	{unix.AF_VSOCK, "AF_VSOCK"},
	{unix.AF_KCM, "AF_KCM"},
	{unix.AF_QIPCRTR, "AF_QIPCRTR"},
	{unix.AF_SMC, "AF_SMC"},
	{unix.AF_XDP, "AF_XDP"},
	{unix.AF_MCTP, "AF_MCTP"},
}

// Socket types (linux/net.h).
var socketTypes = []named{
	{unix.SOCK_STREAM, "SOCK_STREAM"},
	{unix.SOCK_DGRAM, "SOCK_DGRAM"},
	{unix.SOCK_RAW, "SOCK_RAW"},
	{unix.SOCK_RDM, "SOCK_RDM"},
	{unix.SOCK_SEQPACKET, "SOCK_SEQPACKET"},
	{unix.SOCK_DCCP, "SOCK_DCCP"},
	{unix.SOCK_PACKET, "SOCK_PACKET"},
}

// Options of SOL_SOCKET that are ever refused (asm-generic/socket.h).
var socketOptions = []named{
	{unix.SO_ATTACH_FILTER, "SO_ATTACH_FILTER"},
	{unix.SO_ATTACH_BPF, "SO_ATTACH_BPF"},
	{unix.SO_ATTACH_REUSEPORT_CBPF, "SO_ATTACH_REUSEPORT_CBPF"},
	{unix.SO_ATTACH_REUSEPORT_EBPF, "SO_ATTACH_REUSEPORT_EBPF"},
}

// Protocols of the internet families (linux/in.h, linux/in6.h).
var protocols = []named{
	{unix.IPPROTO_ICMP, "IPPROTO_ICMP"},
	{unix.IPPROTO_IGMP, "IPPROTO_IGMP"},
	{unix.IPPROTO_IPIP, "IPPROTO_IPIP"},
	{unix.IPPROTO_TCP, "IPPROTO_TCP"},
	{unix.IPPROTO_UDP, "IPPROTO_UDP"},
	{unix.IPPROTO_DCCP, "IPPROTO_DCCP"},
	{unix.IPPROTO_IPV6, "IPPROTO_IPV6"},
	{unix.IPPROTO_GRE, "IPPROTO_GRE"},
	{unix.IPPROTO_ESP, "IPPROTO_ESP"},
	{unix.IPPROTO_AH, "IPPROTO_AH"},
	{unix.IPPROTO_ICMPV6, "IPPROTO_ICMPV6"},
	{unix.IPPROTO_L2TP, "IPPROTO_L2TP"},
	{unix.IPPROTO_SCTP, "IPPROTO_SCTP"},
	{unix.IPPROTO_UDPLITE, "IPPROTO_UDPLITE"},
	{unix.IPPROTO_MPLS, "IPPROTO_MPLS"},
	{unix.IPPROTO_RAW, "IPPROTO_RAW"},
	{256, "IPPROTO_SMC"},
	{unix.IPPROTO_MPTCP, "IPPROTO_MPTCP"},
}

// Protocols of AF_NETLINK (linux/netlink.h).
var netlinkProtocols = []named{
	{unix.NETLINK_ROUTE, "NETLINK_ROUTE"},
	{unix.NETLINK_USERSOCK, "NETLINK_USERSOCK"},
	{unix.NETLINK_FIREWALL, "NETLINK_FIREWALL"},
	{unix.NETLINK_SOCK_DIAG, "NETLINK_SOCK_DIAG"},
	{unix.NETLINK_NFLOG, "NETLINK_NFLOG"},
	{unix.NETLINK_XFRM, "NETLINK_XFRM"},
	{unix.NETLINK_SELINUX, "NETLINK_SELINUX"},
	{unix.NETLINK_ISCSI, "NETLINK_ISCSI"},
	{unix.NETLINK_AUDIT, "NETLINK_AUDIT"},
	{unix.NETLINK_FIB_LOOKUP, "NETLINK_FIB_LOOKUP"},
	{unix.NETLINK_CONNECTOR, "NETLINK_CONNECTOR"},
	{unix.NETLINK_NETFILTER, "NETLINK_NETFILTER"},
	{unix.NETLINK_IP6_FW, "NETLINK_IP6_FW"},
	{unix.NETLINK_DNRTMSG, "NETLINK_DNRTMSG"},
	{unix.NETLINK_KOBJECT_UEVENT, "NETLINK_KOBJECT_UEVENT"},
	{unix.NETLINK_GENERIC, "NETLINK_GENERIC"},
	{unix.NETLINK_SCSITRANSPORT, "NETLINK_SCSITRANSPORT"},
	{unix.NETLINK_ECRYPTFS, "NETLINK_ECRYPTFS"},
	{unix.NETLINK_RDMA, "NETLINK_RDMA"},
	{unix.NETLINK_CRYPTO, "NETLINK_CRYPTO"},
	{unix.NETLINK_SMC, "NETLINK_SMC"},
}
