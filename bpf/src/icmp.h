// The few ICMP definitions that are needed: <linux/icmp.h> drags in the C library's headers, which a BPF target lacks.
#pragma once

struct icmphdr {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be16 echo_id;
	__be16 echo_sequence;
};

#define ICMP_ECHOREPLY 0
#define ICMP_DEST_UNREACH 3
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11

#define ICMPV6_DEST_UNREACH 1
#define ICMPV6_TIME_EXCEED 3 // with "packet too big" (2) between
#define ICMPV6_ECHO_REQUEST 128
#define ICMPV6_ECHO_REPLY 129
