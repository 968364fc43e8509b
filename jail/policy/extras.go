package policy

import (
	"golang.org/x/sys/unix"
)

// The extras: what a request may ask for beyond the default, where the node's operator permits it.
const (
	Ptrace    = "ptrace"
	IOURing   = "io_uring"
	RawSocket = "raw_socket"
	UserNS    = "userns"
)

// Named is one name that a Change may have, in a sentence.
type Named struct {
	Name string
	Why  string // what it changes, and at what price
}

// Extras are the names that Change.Extras may have.
func Extras() []Named {
	return []Named{
		{Ptrace, "programs of the job may trace and read each other, as debuggers do; a walled-off child of the job is no longer walled off from it"},
		{IOURing, "programs may use io_uring, whose operations no filter sees: sockets of any family that the kernel has, filters on sockets, by which one job can block the whole node, and a part of the kernel with a history of holes"},
		{RawSocket, "the warden opens raw IPv4 and IPv6 sockets for the job in the job's own network, whose rules still judge every packet; programs can make up packets, and read all of the job's own"},
		{UserNS, "programs may make user namespaces and, inside them, mounts and all other namespaces; most of the kernel comes within reach, packet filters by which one job can block the whole node too, and Landlock is off, since it forbids mounts"},
	}
}

// extra is what an extra puts in place of the default's cases.
func extra(name string) []entry {
	everything := []Case{allow("")}
	switch name {
	case Ptrace:
		return []entry{
			{"ptrace process_vm_readv process_vm_writev kcmp process_madvise pidfd_getfd", everything},
			{"personality", []Case{
				allow("0, ADDR_NO_RANDOMIZE as debuggers set it, or a question", int32Arg(0, 0, noRandomize, personalityUnchanged)),
				deny("personality", unix.EPERM, "", whyNoPersonality),
			}},
		}
	case IOURing:
		return []entry{{"io_uring_setup io_uring_enter io_uring_register", everything}}
	case RawSocket:
		return []entry{{"socket", append([]Case{
			deny("socket_raw", unix.EPERM, "a raw IGMP socket", whyNoMulticast,
				family(unix.AF_INET, unix.AF_INET6), kind(unix.SOCK_RAW), protocol(unix.IPPROTO_IGMP)),
			broker("socket_raw", "a raw IP socket",
				"the kernel refused this raw socket to the warden, which opens it for the job",
				family(unix.AF_INET, unix.AF_INET6), kind(unix.SOCK_RAW)),
			// What ping tries first. The kernel says who may (net.ipv4.ping_group_range: nobody), and ping goes on to raw.
			allow("an ICMP socket for ping", family(unix.AF_INET), kind(unix.SOCK_DGRAM), protocol(unix.IPPROTO_ICMP)),
			allow("an ICMPv6 socket for ping", family(unix.AF_INET6), kind(unix.SOCK_DGRAM), protocol(unix.IPPROTO_ICMPV6)),
		}, socketCases()...)}, {"setsockopt", append([]Case{
			deny("multicast_routing", unix.EPERM, "MRT_INIT to MRT_FLUSH, and MRT6_INIT to MRT6_FLUSH", whyNoMulticast,
				int32Arg(1, unix.IPPROTO_IP, unix.IPPROTO_IPV6), int32Arg(2, multicastRouting()...)),
		}, optionCases()...)}}
	case UserNS:
		return []entry{
			{"unshare setns chroot pivot_root sethostname setdomainname", everything},
			{"mount umount2 mount_setattr move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick", everything},
			// clone3 stays as it is: whoever tries it falls back to clone, whose flags can be seen.
			{"clone", []Case{
				allow("a process or thread, in any namespaces", bits(0, tracerChoice, 0)),
				deny("clone_untraced", unix.EPERM, "", whyNoUntraced),
			}},
		}
	}
	return nil
}

const whyNoMulticast = "the owner of a raw socket may set up multicast routing, of which no job is in need; join groups with IP_ADD_MEMBERSHIP"

// multicastRouting are MRT_INIT to MRT_FLUSH, whose numbers MRT6_INIT to MRT6_FLUSH have too (linux/mroute.h, linux/mroute6.h).
func multicastRouting() []uint64 {
	var options []uint64
	for o := uint64(200); o <= 212; o++ {
		options = append(options, o)
	}
	return options
}

const noRandomize = 0x0040000 // ADDR_NO_RANDOMIZE, linux/personality.h

// broker is a case that the warden carries out. Rule and reason are for when the kernel refuses it even so.
func broker(rule, use, why string, when ...Match) Case {
	return Case{Use: use, When: when, Action: Broker, Rule: rule, Why: why}
}
