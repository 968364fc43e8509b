// Egress control of jails. One object, read in this order: shapes, maps, verdict, reporting, socket hooks, packet hooks.
// Kernel floor 5.15: bounded loops and the ring buffer, no trampolines, no CO-RE (only stable kernel interfaces are used).

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2
#define AF_INET6 10

#include "types.h"
#include "icmp.h"
#include "maps.h"
#include "judge.h"
#include "tally.h"
#include "report.h"
#include "socket.h"
#include "parse.h"
#include "packet.h"

// No helper used here is reserved to GPL programs.
char _license[] SEC("license") = "Apache-2.0";
