package policy

import (
	"testing"

	"golang.org/x/sys/unix"
)

// garbage is what a program may put into the half of a register that the kernel ignores for an int.
const garbage = 0xdeadbeef00000000

// TestArguments holds the calls that depend on register arguments. An empty rule means allowed.
func TestArguments(t *testing.T) {
	const (
		sigchld   = uint64(unix.SIGCHLD)
		thread    = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID
		cloexec   = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
		minusOne  = ^uint64(0)
		resetFork = 0x40000000
	)
	policies := both(t)
	for _, c := range []struct {
		call string
		args [6]uint64
		rule string
	}{
		{"clone", args(sigchld), ""},
		{"clone", args(thread), ""},
		{"clone", args(unix.CLONE_VM | unix.CLONE_VFORK | sigchld), ""},
		{"clone", args(unix.CLONE_PIDFD | sigchld), ""},
		{"clone", args(unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID | sigchld), ""},
		{"clone", args(garbage | sigchld), ""},
		{"clone", args(0x80 | sigchld), ""}, // part of the exit signal here, not CLONE_NEWTIME
		{"clone", args(unix.CLONE_NEWUSER | sigchld), "syscall.namespace"},
		{"clone", args(unix.CLONE_NEWNS | sigchld), "syscall.namespace"},
		{"clone", args(unix.CLONE_NEWPID | sigchld), "syscall.namespace"},
		{"clone", args(unix.CLONE_NEWNET | sigchld), "syscall.namespace"},
		{"clone", args(unix.CLONE_NEWIPC | sigchld), "syscall.namespace"},
		{"clone", args(unix.CLONE_NEWUTS | sigchld), "syscall.namespace"},
		{"clone", args(unix.CLONE_NEWCGROUP | sigchld), "syscall.namespace"},
		{"clone", args(garbage | unix.CLONE_NEWUSER | thread), "syscall.namespace"},
		{"clone", args(unix.CLONE_UNTRACED | sigchld), "syscall.clone_untraced"},
		{"clone", args(unix.CLONE_PTRACE | sigchld), "syscall.clone_untraced"},
		{"clone", args(unix.CLONE_UNTRACED | unix.CLONE_NEWUSER), "syscall.clone_untraced"},

		{"ioctl", args(0, unix.TCGETS), ""},
		{"ioctl", args(0, unix.TIOCGWINSZ), ""},
		{"ioctl", args(3, 0x541b), ""},
		{"ioctl", args(3, unix.FICLONE, 4), ""},
		{"ioctl", args(0, 0x5413), ""},
		{"ioctl", args(0, 0x5402), ""},
		{"ioctl", args(0, 0x5412), "syscall.tiocsti"},
		{"ioctl", args(0, 0x100005412), "syscall.tiocsti"},
		{"ioctl", args(0, garbage|0x5412), "syscall.tiocsti"},
		{"ioctl", args(0, 0x541c), "syscall.tioclinux"},
		{"ioctl", args(0, garbage|0x541c), "syscall.tioclinux"},
		{"ioctl", args(0, 0x5423), "syscall.tiocsetd"},
		{"ioctl", args(3, 0x801c581f), ""}, // FS_IOC_FSGETXATTR
		{"ioctl", args(3, 0x40086602), ""}, // FS_IOC_SETFLAGS
		{"ioctl", args(3, 0x401c5820), "syscall.fssetxattr"},
		{"ioctl", args(3, garbage|0x401c5820), "syscall.fssetxattr"},

		{"personality", args(0), ""},
		{"personality", args(0xffffffff), ""},
		{"personality", args(minusOne), ""},
		{"personality", args(0x20000), "syscall.personality"},
		{"personality", args(0x8), "syscall.personality"},
		{"personality", args(0x20008), "syscall.personality"},
		{"personality", args(0x40000), "syscall.personality"},
		{"personality", args(garbage | 0x20000), "syscall.personality"},

		{"prctl", args(unix.PR_SET_NAME, 1), ""},
		{"prctl", args(unix.PR_SET_NO_NEW_PRIVS, 1), ""},
		{"prctl", args(unix.PR_SET_DUMPABLE, 0), ""},
		{"prctl", args(unix.PR_SET_PDEATHSIG, 9), ""},
		{"prctl", args(unix.PR_SET_CHILD_SUBREAPER, 1), ""},
		{"prctl", args(unix.PR_SET_SECCOMP, 2, 1), ""},
		{"prctl", args(unix.PR_SET_PTRACER, 1), ""},
		{"prctl", args(unix.PR_SET_VMA, 0), ""},
		{"prctl", args(unix.PR_CAPBSET_READ, 1), ""},
		{"prctl", args(unix.PR_SET_TIMERSLACK, 1), ""},
		{"prctl", args(unix.PR_SET_MM, 1), "syscall.prctl_mm"},
		{"prctl", args(garbage|unix.PR_SET_MM, 1), "syscall.prctl_mm"},
		{"prctl", args(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE), "syscall.prctl_sched_core"},
		{"prctl", args(unix.PR_SET_SYSCALL_USER_DISPATCH, 1), ""},
		{"prctl", args(unix.PR_SET_MDWE, 1), ""},
		{"prctl", args(unix.PR_FUTEX_HASH, 1), ""},
		{"prctl", args(unix.PR_GET_AUXV, 1), ""},
		{"prctl", args(0), "syscall.prctl_option"},
		{"prctl", args(79, 1), "syscall.prctl_option"},
		{"prctl", args(1 << 31), "syscall.prctl_option"},

		{"prctl", args(garbage|unix.PR_SET_MEMORY_MERGE, 1), "syscall.merge"},
		{"prctl", args(unix.PR_GET_MEMORY_MERGE), ""},
		{"madvise", args(1<<20, 1<<12, garbage|unix.MADV_MERGEABLE), "syscall.merge"},
		{"madvise", args(1<<20, 1<<12, unix.MADV_UNMERGEABLE), ""},
		{"madvise", args(1<<20, 1<<12, unix.MADV_DONTNEED), ""},

		{"setrlimit", args(unix.RLIMIT_CORE, 1), "syscall.core_limit"},
		{"setrlimit", args(garbage|unix.RLIMIT_CORE, 1), "syscall.core_limit"},
		{"setrlimit", args(unix.RLIMIT_NOFILE, 1), ""},
		{"prlimit64", args(0, unix.RLIMIT_CORE, 0, 1), ""},
		{"prlimit64", args(0, unix.RLIMIT_CORE, 1, 0), "syscall.core_limit"},
		{"prlimit64", args(0, unix.RLIMIT_CORE, 1<<32, 0), "syscall.core_limit"},
		{"prlimit64", args(0, garbage|unix.RLIMIT_CORE, 1<<63, 1<<32), "syscall.core_limit"},
		{"prlimit64", args(0, unix.RLIMIT_NOFILE, 1, 1), ""},

		{"fallocate", args(3, 0, 0, 1), "syscall.fallocate"},
		{"fallocate", args(3, garbage|unix.FALLOC_FL_KEEP_SIZE, 0, 1), "syscall.fallocate"},
		{"fallocate", args(3, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1), ""},

		{"seccomp", args(1, 0, 1), ""},
		{"seccomp", args(1, unix.SECCOMP_FILTER_FLAG_TSYNC, 1), ""},
		{"seccomp", args(1, unix.SECCOMP_FILTER_FLAG_LOG|unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, 1), ""},
		{"seccomp", args(1, garbage, 1), ""},
		{"seccomp", args(0, 0, 0), ""},
		{"seccomp", args(2, 0, 1), ""},
		{"seccomp", args(3, 0, 1), ""},
		{"seccomp", args(1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, 1), "syscall.seccomp_listener"},
		{"seccomp", args(garbage|1, garbage|unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, 1), "syscall.seccomp_listener"},
		{"seccomp", args(1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH, 1), "syscall.seccomp_listener"},
		{"seccomp", args(1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|1<<5, 1), "syscall.seccomp_listener"},
		{"seccomp", args(1, unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH, 1), "syscall.seccomp_flags"},
		{"seccomp", args(1, 1<<6, 1), "syscall.seccomp_flags"},
		{"seccomp", args(4, 0, 1), "syscall.seccomp_operation"},

		{"sched_setscheduler", args(0, 0), ""},
		{"sched_setscheduler", args(0, 3), ""},
		{"sched_setscheduler", args(0, 5), ""},
		{"sched_setscheduler", args(0, resetFork|0), ""},
		{"sched_setscheduler", args(0, garbage|3), ""},
		{"sched_setscheduler", args(0, 1), "syscall.realtime"},
		{"sched_setscheduler", args(0, 2), "syscall.realtime"},
		{"sched_setscheduler", args(0, 6), "syscall.realtime"},
		{"sched_setscheduler", args(0, 7), "syscall.realtime"},
		{"sched_setscheduler", args(0, garbage|resetFork|1), "syscall.realtime"},

		{"ioctl", args(3, 0x40305828, 1), "syscall.reserve"},
		{"ioctl", args(3, garbage|0x4030582a, 1), "syscall.reserve"},
		{"ioctl", args(3, 0x40305839, 1), "syscall.reserve"},
		{"ioctl", args(3, 0x40305829, 1), ""}, // FS_IOC_UNRESVSP gives space back
		{"mmap", args(0, 4096, 3, 0x22, 0, 0), ""},
		{"mmap", args(0, 1<<21, 3, 0x40022, 0, 0), "syscall.huge_pages"},
		{"mmap", args(0, 1<<21, 3, garbage|21<<26|0x40001, 0, 0), "syscall.huge_pages"},
		{"memfd_create", args(1, 3), ""},
		{"memfd_create", args(1, garbage|4), "syscall.huge_pages"},
		{"shmget", args(1, 4096, 0o1666), ""},
		{"shmget", args(1, 1<<21, garbage|0o4000), "syscall.huge_pages"},
		{"mknodat", args(0, 1, unix.S_IFREG|0o644), ""},
		{"mknodat", args(0, 1, 0o644), ""},
		{"mknodat", args(0, 1, unix.S_IFIFO|0o600), ""},
		{"mknodat", args(0, 1, unix.S_IFSOCK|0o600), ""},
		{"mknodat", args(0, 1, garbage|0xffff0000|unix.S_IFIFO), ""},
		{"mknodat", args(0, 1, unix.S_IFCHR, 0), "syscall.device_node"},
		{"mknodat", args(0, 1, unix.S_IFBLK|0o777, 0x800), "syscall.device_node"},
		{"mknodat", args(0, 1, garbage|0xffff0000|unix.S_IFCHR, 0x101), "syscall.device_node"},

		{"socket", args(unix.AF_UNIX, unix.SOCK_STREAM|cloexec), ""},
		{"socket", args(unix.AF_UNIX, unix.SOCK_DGRAM), ""},
		{"socket", args(unix.AF_UNIX, unix.SOCK_SEQPACKET), ""},
		{"socket", args(unix.AF_INET, unix.SOCK_STREAM|cloexec, 0), ""},
		{"socket", args(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP), ""},
		{"socket", args(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP), ""},
		{"socket", args(unix.AF_INET, unix.SOCK_DGRAM|cloexec, unix.IPPROTO_UDP), ""},
		{"socket", args(unix.AF_INET6, unix.SOCK_DGRAM, 0), ""},
		{"socket", args(garbage|unix.AF_INET, garbage|unix.SOCK_STREAM, garbage), ""},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_RAW|cloexec, unix.NETLINK_ROUTE), ""},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_ROUTE), ""},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER), "syscall.netlink_protocol"},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM), "syscall.netlink_protocol"},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), "syscall.netlink_protocol"},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC), "syscall.netlink_protocol"},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), "syscall.netlink_protocol"},
		{"socket", args(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), "syscall.socket_raw"},
		{"socket", args(unix.AF_INET, unix.SOCK_RAW|cloexec, unix.IPPROTO_TCP), "syscall.socket_raw"},
		{"socket", args(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6), "syscall.socket_raw"},
		{"socket", args(garbage|unix.AF_INET, garbage|unix.SOCK_RAW, 255), "syscall.socket_raw"},
		{"socket", args(unix.AF_INET, unix.SOCK_PACKET, 0x300), "syscall.socket_raw"},
		{"socket", args(unix.AF_UNIX, unix.SOCK_RAW), "syscall.socket_raw"},
		{"socket", args(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET6, unix.SOCK_STREAM|cloexec, garbage|unix.IPPROTO_MPTCP), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET, unix.SOCK_SEQPACKET, 0), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET, unix.SOCK_STREAM, 256), "syscall.socket_protocol"}, // IPPROTO_SMC
		{"socket", args(unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6), "syscall.socket_protocol"},
		{"socket", args(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_L2TP), "syscall.socket_protocol"},

		{"socketpair", args(unix.AF_UNIX, unix.SOCK_STREAM|cloexec), ""},
		{"socketpair", args(garbage|unix.AF_UNIX, unix.SOCK_DGRAM), ""},
		{"socketpair", args(unix.AF_TIPC, unix.SOCK_STREAM), "syscall.socket_family"},

		{"setsockopt", args(3, unix.SOL_SOCKET, unix.SO_REUSEADDR), ""},
		{"setsockopt", args(3, unix.SOL_SOCKET, unix.TCP_ULP), ""},
		{"setsockopt", args(3, unix.SOL_TCP, unix.TCP_NODELAY), ""},
		{"setsockopt", args(3, unix.SOL_TCP, unix.TCP_FASTOPEN), ""},
		{"setsockopt", args(3, unix.SOL_TCP, unix.TCP_ULP), "syscall.tcp_ulp"},
		{"setsockopt", args(3, garbage|unix.SOL_TCP, garbage|unix.TCP_ULP), "syscall.tcp_ulp"},
		{"setsockopt", args(3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER), "syscall.socket_filter"},
		{"setsockopt", args(3, garbage|unix.SOL_SOCKET, garbage|unix.SO_ATTACH_REUSEPORT_CBPF), "syscall.socket_filter"},
		{"setsockopt", args(3, unix.SOL_SOCKET, unix.SO_DETACH_FILTER), ""},
		{"setsockopt", args(3, unix.SOL_TCP, unix.SO_ATTACH_FILTER), ""},
	} {
		for arch, p := range policies {
			call, ok := p.Lookup(c.call)
			if !ok {
				t.Fatalf("%s has no call %s", arch, c.call)
			}
			v := p.Evaluate(p.AuditArch(), call.NR, c.args)
			if v.Rule != c.rule || (v.Action == Allow) != (c.rule == "") {
				t.Errorf("%s: %s%#x = %v by %q, want %q", arch, c.call, c.args, v.Action, v.Rule, c.rule)
			}
		}
	}
}

// TestSocketFamilies holds every family but the four, whatever the type and protocol.
func TestSocketFamilies(t *testing.T) {
	p := mustDefault(t, "amd64")
	socket, _ := p.Lookup("socket")
	kept := map[uint64]bool{unix.AF_UNIX: true, unix.AF_INET: true, unix.AF_INET6: true, unix.AF_NETLINK: true}
	for family := range uint64(64) {
		for kind := range uint64(16) {
			for _, protocol := range []uint64{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_MPTCP} {
				v := p.Evaluate(p.AuditArch(), socket.NR, args(family, kind, protocol))
				if !kept[family] && (v.Action != Trace || v.Errno != unix.EPERM || v.Rule != "syscall.socket_family") {
					t.Errorf("socket(%d, %d, %d) = %+v", family, kind, protocol, v)
				}
			}
		}
	}
}

// TestFallbackErrnos holds the refusals whose errno is what makes programs go another way.
func TestFallbackErrnos(t *testing.T) {
	p := mustDefault(t, "amd64")
	socket, _ := p.Lookup("socket")
	if v := p.Evaluate(p.AuditArch(), socket.NR, args(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)); v.Errno != unix.EPROTONOSUPPORT {
		t.Errorf("multipath TCP = %v", v.Errno)
	}
	prctl, _ := p.Lookup("prctl")
	if v := p.Evaluate(p.AuditArch(), prctl.NR, args(1000)); v.Errno != unix.EINVAL {
		t.Errorf("unknown option of prctl = %v", v.Errno)
	}
	option, _ := p.Lookup("setsockopt")
	if v := p.Evaluate(p.AuditArch(), option.NR, args(3, unix.SOL_TCP, unix.TCP_ULP)); v.Errno != unix.ENOPROTOOPT {
		t.Errorf("upper-layer protocol = %v", v.Errno)
	}
}

// TestDeviceNodes holds mknod, which arm64 has not.
func TestDeviceNodes(t *testing.T) {
	p := mustDefault(t, "amd64")
	mknod, _ := p.Lookup("mknod")
	for mode, want := range map[uint64]Action{
		0o644: Allow, unix.S_IFREG: Allow, unix.S_IFIFO: Allow, unix.S_IFSOCK: Allow,
		unix.S_IFCHR: Trace, unix.S_IFBLK: Trace, unix.S_IFDIR: Trace, unix.S_IFLNK: Trace,
	} {
		if v := p.Evaluate(p.AuditArch(), mknod.NR, args(1, mode)); v.Action != want {
			t.Errorf("mknod mode %#o = %v", mode, v.Action)
		}
	}
}
