package explain

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

func mustDefault(t testing.TB, arch string) policy.Policy {
	t.Helper()
	p, err := policy.Default(arch)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func args(a ...uint64) (all [6]uint64) {
	copy(all[:], a)
	return all
}

// TestWords holds how attempts are worded, on both architectures.
func TestWords(t *testing.T) {
	const (
		minus100 = ^uint64(99)
		garbage  = 0xdeadbeef00000000
	)
	for _, c := range []struct {
		call       string
		args       [6]uint64
		what, rule string
	}{
		{"ptrace", args(0), "ptrace(PTRACE_TRACEME)", "syscall.ptrace"},
		{"ptrace", args(0, 1234), "ptrace(PTRACE_TRACEME)", "syscall.ptrace"},
		{"ptrace", args(0x4206, 1), "ptrace(PTRACE_SEIZE, pid 1)", "syscall.ptrace"},
		{"ptrace", args(16, 7), "ptrace(PTRACE_ATTACH, pid 7)", "syscall.ptrace"},
		{"ptrace", args(0x9999, 7), "ptrace(39321, pid 7)", "syscall.ptrace"},
		{"bpf", args(unix.BPF_PROG_LOAD), "bpf(BPF_PROG_LOAD)", "syscall.bpf"},
		{"bpf", args(garbage | unix.BPF_LINK_CREATE), "bpf(BPF_LINK_CREATE)", "syscall.bpf"},
		{"bpf", args(999), "bpf(999)", "syscall.bpf"},
		{"socket", args(unix.AF_PACKET, unix.SOCK_RAW), "socket(AF_PACKET, SOCK_RAW)", "syscall.socket_family"},
		{"socket", args(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0x300), "socket(AF_PACKET, SOCK_RAW, 768)", "syscall.socket_family"},
		{"socket", args(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), "socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)", "syscall.socket_raw"},
		{"socket", args(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), "socket(AF_INET6, SOCK_STREAM, IPPROTO_MPTCP)", "syscall.socket_protocol"},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER), "socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER)", "syscall.netlink_protocol"},
		{"socket", args(unix.AF_NETLINK, unix.SOCK_STREAM), "socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE)", "syscall.netlink_protocol"},
		{"socket", args(unix.AF_CAN, unix.SOCK_RAW, 1), "socket(AF_CAN, SOCK_RAW, 1)", "syscall.socket_family"},
		{"socket", args(99, 15, 77), "socket(99, 15, 77)", "syscall.socket_family"},
		{"socketpair", args(unix.AF_TIPC, unix.SOCK_STREAM), "socketpair(AF_TIPC, SOCK_STREAM)", "syscall.socket_family"},
		{"setsockopt", args(3, unix.SOL_TCP, unix.TCP_ULP), "setsockopt(SOL_TCP, TCP_ULP)", "syscall.tcp_ulp"},
		{"setsockopt", args(3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER), "setsockopt(SOL_SOCKET, SO_ATTACH_FILTER)", "syscall.socket_filter"},
		{"clone", args(unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)), "clone(CLONE_NEWUSER)", "syscall.namespace"},
		{"clone", args(unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_VM), "clone(CLONE_NEWUSER|CLONE_NEWNET)", "syscall.namespace"},
		{"clone", args(unix.CLONE_UNTRACED | uint64(unix.SIGCHLD)), "clone(CLONE_UNTRACED)", "syscall.clone_untraced"},
		{"unshare", args(unix.CLONE_NEWUSER | unix.CLONE_NEWNS), "unshare(CLONE_NEWUSER|CLONE_NEWNS)", "syscall.unshare"},
		{"setns", args(3, unix.CLONE_NEWNET), "setns(CLONE_NEWNET)", "syscall.setns"},
		{"setns", args(3, 0), "setns(...)", "syscall.setns"},
		{"mount", args(1, 2, 3, unix.MS_BIND|unix.MS_REC), "mount(MS_BIND|MS_REC)", "syscall.mount"},
		{"mount", args(1, 2, 3, 0), "mount(...)", "syscall.mount"},
		{"umount2", args(1, unix.MNT_DETACH), "umount2(MNT_DETACH)", "syscall.umount2"},
		{"open_tree", args(minus100, 1, unix.OPEN_TREE_CLONE), "open_tree(OPEN_TREE_CLONE)", "syscall.open_tree"},
		{"fsopen", args(1, 0), "fsopen(...)", "syscall.fsopen"},
		{"seccomp", args(1, 8, 1), "seccomp(SECCOMP_SET_MODE_FILTER, NEW_LISTENER)", "syscall.seccomp_listener"},
		{"seccomp", args(1, 8|1|16, 1), "seccomp(SECCOMP_SET_MODE_FILTER, TSYNC|NEW_LISTENER|TSYNC_ESRCH)", "syscall.seccomp_listener"},
		{"seccomp", args(9, 0, 1), "seccomp(9)", "syscall.seccomp_operation"},
		{"prctl", args(unix.PR_SET_MM, 1), "prctl(PR_SET_MM)", "syscall.prctl_mm"},
		{"prctl", args(unix.PR_SCHED_CORE, 1), "prctl(PR_SCHED_CORE)", "syscall.prctl_sched_core"},
		{"ioctl", args(0, 0x100005412), "ioctl(TIOCSTI)", "syscall.tiocsti"},
		{"ioctl", args(0, 0x541c), "ioctl(TIOCLINUX)", "syscall.tioclinux"},
		{"ioctl", args(0, 0x5423), "ioctl(TIOCSETD)", "syscall.tiocsetd"},
		{"ioctl", args(3, 0x401c5820), "ioctl(FS_IOC_FSSETXATTR)", "syscall.fssetxattr"},
		{"ioctl", args(3, 0x40305828), "ioctl(FS_IOC_RESVSP)", "syscall.reserve"},
		{"prctl", args(79), "prctl(79)", "syscall.prctl_option"},
		{"personality", args(0x20000), "personality(UNAME26)", "syscall.personality"},
		{"personality", args(0x40000), "personality(ADDR_NO_RANDOMIZE)", "syscall.personality"},
		{"sched_setscheduler", args(0, 1), "sched_setscheduler(SCHED_FIFO)", "syscall.realtime"},
		{"sched_setscheduler", args(0, 0x40000002), "sched_setscheduler(SCHED_RR)", "syscall.realtime"},
		{"sched_setattr", args(0, 1), "sched_setattr(...)", "syscall.sched_setattr"},
		{"prctl", args(unix.PR_SET_MEMORY_MERGE, 1), "prctl(PR_SET_MEMORY_MERGE)", "syscall.merge"},
		{"madvise", args(1<<20, 1<<12, unix.MADV_MERGEABLE), "madvise(MADV_MERGEABLE)", "syscall.merge"},
		{"prlimit64", args(0, unix.RLIMIT_CORE, 1, 1), "prlimit64(RLIMIT_CORE)", "syscall.core_limit"},
		{"mmap", args(0, 1<<21, 3, 0x40022), "mmap(MAP_HUGETLB)", "syscall.huge_pages"},
		{"memfd_create", args(1, 21<<26|5), "memfd_create(MFD_HUGETLB)", "syscall.huge_pages"},
		{"shmget", args(0, 1<<21, 0o5600), "shmget(SHM_HUGETLB)", "syscall.huge_pages"},
		{"mknodat", args(minus100, 1, unix.S_IFCHR|0o666, 0x101), "mknodat(S_IFCHR, 1:1)", "syscall.device_node"},
		{"mknodat", args(minus100, 1, unix.S_IFBLK, 0x800), "mknodat(S_IFBLK, 8:0)", "syscall.device_node"},
		{"keyctl", args(0, 1), "keyctl(KEYCTL_GET_KEYRING_ID)", "syscall.keyctl"},
		{"process_vm_readv", args(12), "process_vm_readv(pid 12)", "syscall.process_vm_readv"},
		{"kcmp", args(1, 2), "kcmp(pid 1, pid 2)", "syscall.kcmp"},
		{"clock_settime", args(0), "clock_settime(CLOCK_REALTIME)", "syscall.clock_settime"},
		{"syslog", args(3), "syslog(SYSLOG_ACTION_READ_ALL)", "syscall.syslog"},
		{"io_uring_setup", args(8), "io_uring_setup(8 entries)", "syscall.io_uring_setup"},
		{"sync", args(), "sync()", "syscall.sync"},
		{"vhangup", args(), "vhangup()", "syscall.vhangup"},
		{"reboot", args(1, 2, 3), "reboot(...)", "syscall.reboot"},
		{"read", args(0, 1, 2), "read(...)", "syscall.own_filter"},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			p := mustDefault(t, arch)
			call, ok := p.Lookup(c.call)
			if !ok {
				t.Fatalf("%s has no call %s", arch, c.call)
			}
			got := Syscall(p, jail.Denial{Arch: p.AuditArch(), NR: int(call.NR), Args: c.args, Errno: 1, Program: "x"}, nil)
			if got.What != c.what || got.Rule != c.rule {
				t.Errorf("%s: %s%#x = %q by %q, want %q by %q", arch, c.call, c.args, got.What, got.Rule, c.what, c.rule)
			}
		}
	}
}

// TestOtherABIs holds what comes in by another way than the machine's own, and numbers without a call.
func TestOtherABIs(t *testing.T) {
	for _, c := range []struct {
		arch       string
		audit      uint32
		nr         int
		what, rule string
	}{
		{"amd64", unix.AUDIT_ARCH_I386, 5, "i386 system call 5 (open)", "syscall.abi"},
		{"amd64", unix.AUDIT_ARCH_I386, 9999, "i386 system call 9999", "syscall.abi"},
		{"amd64", unix.AUDIT_ARCH_X86_64, 1<<30 | 2, "x32 system call 2 (open)", "syscall.abi"},
		{"amd64", unix.AUDIT_ARCH_X86_64, 1<<30 | 520, "x32 system call 520", "syscall.abi"},
		{"amd64", unix.AUDIT_ARCH_X86_64, 471 + 30, "system call 501", "syscall.unknown"},
		{"amd64", unix.AUDIT_ARCH_X86_64, -1, "system call -1", "syscall.unknown"},
		{"amd64", unix.AUDIT_ARCH_RISCV64, 5, "system call 5 of architecture 0xc00000f3", "syscall.abi"},
		{"arm64", unix.AUDIT_ARCH_ARM, 5, "arm system call 5 (open)", "syscall.abi"},
		{"arm64", unix.AUDIT_ARCH_X86_64, 101, "x86_64 system call 101 (ptrace)", "syscall.abi"},
		{"arm64", unix.AUDIT_ARCH_AARCH64, 1<<30 | 2, "system call 1073741826", "syscall.unknown"},
	} {
		got := Syscall(mustDefault(t, c.arch), jail.Denial{Arch: c.audit, NR: c.nr, Errno: int(unix.ENOSYS)}, nil)
		if got.What != c.what || got.Rule != c.rule || got.Errno != "ENOSYS" {
			t.Errorf("%s: call %d of %#x = %q by %q, want %q by %q", c.arch, c.nr, c.audit, got.What, got.Rule, c.what, c.rule)
		}
	}
}

// TestDenied holds how the refusals are worded that a run asked for.
func TestDenied(t *testing.T) {
	for _, c := range []struct {
		deny, call string
		args       [6]uint64
		what, rule string
	}{
		{"processes", "fork", args(), "fork()", "policy.processes"},
		{"processes", "clone", args(uint64(unix.SIGCHLD)), "clone(SIGCHLD)", "policy.processes"},
		{"processes", "clone", args(unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)), "clone(CLONE_NEWUSER)", "policy.processes"},
		{"processes", "clone", args(unix.CLONE_VM), "clone(...)", "policy.processes"},
		{"sockets", "socket", args(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC), "socket(AF_INET, SOCK_STREAM)", "policy.sockets"},
		{"syscall.getpid", "getpid", args(), "getpid(...)", "policy.syscall.getpid"},
	} {
		p, err := policy.For("amd64", policy.Change{Deny: []string{c.deny}})
		if err != nil {
			t.Fatal(err)
		}
		call, _ := p.Lookup(c.call)
		got := Syscall(p, jail.Denial{Arch: p.AuditArch(), NR: int(call.NR), Args: c.args, Errno: 1}, []string{"ptrace", "userns"})
		if got.What != c.what || got.Rule != c.rule || got.Fix != nil || !strings.Contains(got.Why, "policy.deny: "+c.deny) {
			t.Errorf("%+v, want %q by %q", got, c.what, c.rule)
		}
	}
}

// TestConditionsAreWorded: where arguments decide, the words name them, whatever the policy.
func TestConditionsAreWorded(t *testing.T) {
	changes := []policy.Change{{}}
	for _, x := range policy.Extras() {
		changes = append(changes, policy.Change{Extras: []string{x.Name}})
	}
	worded := 0
	for _, c := range changes {
		p, err := policy.For("amd64", c)
		if err != nil {
			t.Fatal(err)
		}
		for call := range p.Calls() {
			if len(call.Cases) == 1 {
				continue
			}
			samples := [][6]uint64{args(1<<31-1, 1<<31-1, 1<<31-1), {}}
			for _, k := range call.Cases {
				var a [6]uint64
				for _, m := range k.When {
					a[m.Arg] = m.In[len(m.In)-1]
				}
				samples = append(samples, a)
			}
			for _, a := range samples {
				if v := p.Evaluate(p.AuditArch(), call.NR, a); v.Action != policy.Trace {
					continue
				}
				got := Syscall(p, jail.Denial{Arch: p.AuditArch(), NR: int(call.NR), Args: a, Errno: 1}, nil)
				if worded++; strings.Contains(got.What, "...") || strings.HasSuffix(got.What, "()") {
					t.Errorf("%+v: %s%#x is worded %q", c, call.Name, a, got.What)
				}
			}
		}
	}
	if worded < 50 {
		t.Errorf("only %d refusals were tried", worded)
	}
}

// TestFix: an extra that would allow the call is the fix where the node offers it, and is named where it does not.
func TestFix(t *testing.T) {
	for _, c := range []struct {
		call      string
		args      [6]uint64
		had       []string
		permitted []string
		fix, why  string
	}{
		{"ptrace", args(16, 7), nil, []string{"userns", "ptrace"}, `{"policy":{"extras":["ptrace"]}}`, `or ask for the extra "ptrace"`},
		{"ptrace", args(16, 7), nil, []string{"userns"}, "", `the extra "ptrace" would allow it, and this node does not offer it`},
		{"ptrace", args(16, 7), []string{"io_uring", "userns"}, []string{"ptrace"}, `{"policy":{"extras":["io_uring","userns","ptrace"]}}`, "or ask"},
		{"io_uring_setup", args(8), nil, []string{"io_uring"}, `{"policy":{"extras":["io_uring"]}}`, "or ask"},
		{"socket", args(unix.AF_INET, unix.SOCK_RAW, 1), nil, []string{"raw_socket"}, `{"policy":{"extras":["raw_socket"]}}`, "or ask"},
		{"socket", args(unix.AF_PACKET, unix.SOCK_RAW, 1), nil, []string{"raw_socket"}, "", "use one of those"},
		{"unshare", args(unix.CLONE_NEWUSER), nil, []string{"userns"}, `{"policy":{"extras":["userns"]}}`, "or ask"},
		{"clone", args(unix.CLONE_NEWUSER), nil, []string{"userns"}, `{"policy":{"extras":["userns"]}}`, "or ask"},
		{"bpf", args(5), nil, []string{"userns", "ptrace"}, "", "do the work in the program itself"},
		{"socket", args(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_IGMP), nil, []string{"raw_socket"}, "", "use TCP or UDP"},
		{"socket", args(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_IGMP), []string{"raw_socket"}, []string{"raw_socket"}, "", "multicast routing"},
		// With the extra the call is the warden's to make: a refusal comes from the kernel.
		{"socket", args(unix.AF_INET, unix.SOCK_RAW, 1), []string{"raw_socket"}, []string{"raw_socket"}, "", "the kernel refused this raw socket"},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			p, err := policy.For(arch, policy.Change{Extras: c.had})
			if err != nil {
				t.Fatal(err)
			}
			call, _ := p.Lookup(c.call)
			got := Syscall(p, jail.Denial{Arch: p.AuditArch(), NR: int(call.NR), Args: c.args, Errno: 1}, c.permitted)
			if string(got.Fix) != c.fix || !strings.Contains(got.Why, c.why) {
				t.Errorf("%s with %v: fix %s, %s; want %s, %s", c.call, c.had, got.Fix, got.Why, c.fix, c.why)
			}
		}
	}
}

func TestFieldsAreCarried(t *testing.T) {
	p := mustDefault(t, "amd64")
	got := Syscall(p, jail.Denial{Arch: p.AuditArch(), NR: 101, Errno: 1, PID: 7, Program: "gdb", AtUS: 41999, Count: 3}, nil)
	if got.Layer != "syscall" || got.Errno != "EPERM" || got.PID != 7 || got.Program != "gdb" || got.AtMS != 41 || got.Count != 3 || got.Fix != nil {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Why, "a second one beside the warden") {
		t.Errorf("reason %q", got.Why)
	}
}

// TestErrno: a record without a usable errno is explained with the policy's.
func TestErrno(t *testing.T) {
	p := mustDefault(t, "amd64")
	for recorded, want := range map[int]string{0: "ENOSYS", -5: "ENOSYS", 38: "ENOSYS", 1: "EPERM", 4000: "errno 4000"} {
		if got := Syscall(p, jail.Denial{Arch: p.AuditArch(), NR: 425, Errno: recorded}, nil); got.Errno != want {
			t.Errorf("errno %d = %q, want %q", recorded, got.Errno, want)
		}
	}
}

// TestHostileNames: a process names itself, and its name ends up in logs and terminals.
func TestHostileNames(t *testing.T) {
	for name, want := range map[string]string{
		"python3":               "python3",
		"a b":                   "a b",
		"\x1b[31mroot\n":        "?[31mroot?",
		"bad\xff\xfe":           "bad??",
		"caf\xc3\xa9":           "café",
		"cut\xe6\x97":           "cut??",
		"\u202egnp.exe":         "?gnp.exe",
		strings.Repeat("x", 99): strings.Repeat("x", 64),
	} {
		if got := printable(name); got != want {
			t.Errorf("printable(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestEveryRefusalIsExplained: each refusal of the table has words, a rule, an errno and a reason.
func TestEveryRefusalIsExplained(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p := mustDefault(t, arch)
		for nr := range 600 {
			for range 20 {
				a := [6]uint64{rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64()}
				d := Syscall(p, jail.Denial{Arch: p.AuditArch(), NR: nr, Args: a}, nil)
				allowed := p.Evaluate(p.AuditArch(), uint32(nr), a).Action == policy.Allow
				if d.What == "" || d.Why == "" || !strings.HasPrefix(d.Rule, "syscall.") || (d.Rule == ownFilter) != allowed || !allowed && d.Errno == "errno 0" {
					t.Fatalf("%s: call %d%#x: %+v", arch, nr, a, d)
				}
			}
		}
	}
}

func FuzzSyscall(f *testing.F) {
	p := mustDefault(f, "amd64")
	f.Add(p.AuditArch(), 41, uint64(2), uint64(3), uint64(1), uint64(0), 1, "ping")
	f.Add(uint32(unix.AUDIT_ARCH_I386), -1, uint64(0), uint64(0), uint64(0), uint64(0), -1, "\xff\x00")
	f.Fuzz(func(t *testing.T, arch uint32, nr int, a0, a1, a2, a3 uint64, errno int, program string) {
		d := Syscall(p, jail.Denial{Arch: arch, NR: nr, Args: [6]uint64{a0, a1, a2, a3}, Errno: errno, Program: program}, []string{"ptrace"})
		for _, text := range []string{d.What, d.Rule, d.Errno, d.Program, d.Why} {
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n\r\x1b") || len(text) > 400 {
				t.Errorf("unsafe text %q", text)
			}
		}
		if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
	})
}
