package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func mustFor(t testing.TB, arch string, c Change) Policy {
	t.Helper()
	p, err := For(arch, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// variants is the default and every change with one name, on both architectures, by what is changed.
func variants(t testing.TB) map[string]Policy {
	t.Helper()
	all := map[string]Policy{}
	for _, arch := range []string{"amd64", "arm64"} {
		all[arch] = mustDefault(t, arch)
		for _, x := range Extras() {
			all[arch+" with "+x.Name] = mustFor(t, arch, Change{Extras: []string{x.Name}})
		}
		for _, name := range []string{DenyExecOutsideBase, DenyProcesses, DenySockets, "syscall.socket", "syscall.getpid"} {
			all[arch+" without "+name] = mustFor(t, arch, Change{Deny: []string{name}})
		}
	}
	return all
}

// TestChanges holds what each extra gives and each denial takes.
func TestChanges(t *testing.T) {
	const garbage = 0xdeadbeef00000000
	x := func(names ...string) Change { return Change{Extras: names} }
	no := func(names ...string) Change { return Change{Deny: names} }
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	for _, c := range []struct {
		change Change
		call   string
		args   [6]uint64
		action Action
		rule   string
	}{
		{x(Ptrace), "ptrace", args(0), Allow, ""},
		{x(Ptrace), "process_vm_readv", args(1), Allow, ""},
		{x(Ptrace), "pidfd_getfd", args(3), Allow, ""},
		{x(Ptrace), "process_mrelease", args(3), Trace, "syscall.process_mrelease"},
		{x(Ptrace), "personality", args(0x40000), Allow, ""},
		{x(Ptrace), "personality", args(0x20000), Trace, "syscall.personality"},
		{x(Ptrace), "seccomp", args(1, 8, 1), Trace, "syscall.seccomp_listener"},
		{x(Ptrace), "bpf", args(5), Trace, "syscall.bpf"},
		{x(IOURing), "io_uring_setup", args(8), Allow, ""},
		{x(IOURing), "ptrace", args(0), Trace, "syscall.ptrace"},
		{x(RawSocket), "socket", args(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 1), Broker, "syscall.socket_raw"},
		{x(RawSocket), "socket", args(garbage|unix.AF_INET6, garbage|unix.SOCK_RAW, 58), Broker, "syscall.socket_raw"},
		{x(RawSocket), "socket", args(unix.AF_INET, unix.SOCK_DGRAM, 1), Allow, ""},
		{x(RawSocket), "socket", args(unix.AF_INET6, unix.SOCK_DGRAM, 1), Trace, "syscall.socket_protocol"},
		{x(RawSocket), "socket", args(unix.AF_INET, unix.SOCK_PACKET, 3), Trace, "syscall.socket_raw"},
		{x(RawSocket), "socket", args(unix.AF_PACKET, unix.SOCK_RAW, 3), Trace, "syscall.socket_family"},
		{x(RawSocket), "socket", args(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), Trace, "syscall.socket_protocol"},
		{x(RawSocket), "socket", args(unix.AF_INET, unix.SOCK_STREAM), Allow, ""},
		{x(RawSocket), "socket", args(unix.AF_INET, unix.SOCK_RAW, garbage|unix.IPPROTO_IGMP), Trace, "syscall.socket_raw"},
		{x(RawSocket), "setsockopt", args(3, unix.IPPROTO_IP, 200), Trace, "syscall.multicast_routing"},
		{x(RawSocket), "setsockopt", args(3, garbage|unix.IPPROTO_IPV6, garbage|212), Trace, "syscall.multicast_routing"},
		{x(RawSocket), "setsockopt", args(3, unix.IPPROTO_IP, unix.IP_HDRINCL), Allow, ""},
		{x(RawSocket), "setsockopt", args(3, unix.SOL_TCP, unix.TCP_ULP), Trace, "syscall.tcp_ulp"},
		{x(RawSocket), "setsockopt", args(3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER), Trace, "syscall.socket_filter"},
		{x(UserNS), "unshare", args(unix.CLONE_NEWUSER), Allow, ""},
		{x(UserNS), "mount", args(), Allow, ""},
		{x(UserNS), "clone", args(unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)), Allow, ""},
		{x(UserNS), "clone", args(unix.CLONE_NEWUSER | unix.CLONE_UNTRACED), Trace, "syscall.clone_untraced"},
		{x(UserNS), "clone3", args(), Quiet, "syscall.clone3"},
		{x(UserNS), "open_by_handle_at", args(), Trace, "syscall.open_by_handle_at"},
		{x(UserNS), "mknodat", args(0, 1, unix.S_IFCHR), Trace, "syscall.device_node"},

		{no(DenyProcesses), "clone", args(uint64(unix.SIGCHLD)), Trace, "policy.processes"},
		{no(DenyProcesses), "clone", args(unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)), Trace, "policy.processes"},
		{no(DenyProcesses), "clone", args(garbage | thread), Allow, ""},
		{no(DenyProcesses), "clone", args(thread | unix.CLONE_NEWNET), Trace, "policy.processes"},
		{no(DenyProcesses), "clone3", args(), Quiet, "syscall.clone3"},
		{no(DenyProcesses), "execve", args(), Allow, ""},
		{Change{Extras: []string{UserNS}, Deny: []string{DenyProcesses}}, "clone", args(unix.CLONE_NEWUSER), Trace, "policy.processes"},
		{no(DenySockets), "socket", args(unix.AF_UNIX, unix.SOCK_STREAM), Allow, ""},
		{no(DenySockets), "socket", args(unix.AF_INET, unix.SOCK_STREAM), Trace, "policy.sockets"},
		{no(DenySockets), "socket", args(unix.AF_NETLINK, unix.SOCK_RAW), Trace, "policy.sockets"},
		{no(DenySockets), "socket", args(unix.AF_UNIX, unix.SOCK_RAW), Trace, "policy.sockets"},
		{Change{Extras: []string{RawSocket}, Deny: []string{DenySockets}}, "socket", args(unix.AF_INET, unix.SOCK_RAW), Trace, "policy.sockets"},
		{no("syscall.getpid"), "getpid", args(), Trace, "policy.syscall.getpid"},
		{no("syscall.socket"), "socket", args(unix.AF_UNIX, unix.SOCK_STREAM), Trace, "policy.syscall.socket"},
		{Change{Extras: []string{Ptrace}, Deny: []string{"syscall.ptrace"}}, "ptrace", args(), Trace, "policy.syscall.ptrace"},
		{no(DenyExecOutsideBase), "execve", args(), Allow, ""},
		{no(DenyExecOutsideBase), "memfd_create", args(1, unix.MFD_NOEXEC_SEAL), Trace, "policy.execve_outside_base"}, // the loader maps it all the same
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			p := mustFor(t, arch, c.change)
			call, ok := p.Lookup(c.call)
			if !ok {
				t.Fatalf("%s has no call %s", arch, c.call)
			}
			if v := p.Evaluate(p.AuditArch(), call.NR, c.args); v.Action != c.action || v.Rule != c.rule {
				t.Errorf("%s %+v: %s%#x = %v by %q, want %v by %q", arch, c.change, c.call, c.args, v.Action, v.Rule, c.action, c.rule)
			}
		}
	}
}

// TestChangesTouchOnlyTheirCalls: an extra refuses nothing that was allowed, a denial allows nothing that was refused, and
// two extras never decide the same call.
func TestChangesTouchOnlyTheirCalls(t *testing.T) {
	owner := map[string]string{}
	for _, x := range Extras() {
		for _, e := range extra(x.Name) {
			for name := range strings.FieldsSeq(e.calls) {
				if other, taken := owner[name]; taken {
					t.Errorf("%s is decided by %s and by %s", name, x.Name, other)
				}
				owner[name] = x.Name
			}
		}
	}
	for name, p := range variants(t) {
		was := mustDefault(t, p.Arch())
		for c := range p.Calls() {
			for a := range corners(c, callOf(was, c.NR)) {
				before, now := was.Evaluate(p.AuditArch(), c.NR, a), p.Evaluate(p.AuditArch(), c.NR, a)
				if len(p.Change().Extras) > 0 && before.Action == Allow && now != before && now.Rule != "syscall.multicast_routing" {
					t.Errorf("%s: %s%#x was allowed, and is %+v", name, c.Name, a, now)
				}
				if len(p.Change().Deny) > 0 && before.Action != Allow && now.Action == Allow {
					t.Errorf("%s: %s%#x was refused, and is allowed", name, c.Name, a)
				}
			}
		}
	}
}

// TestExtraFor: whatever some extra allows is found, and works when it is asked for.
func TestExtraFor(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p, found := mustDefault(t, arch), map[string]int{}
		for c := range p.Calls() {
			for _, x := range Extras() {
				with := mustFor(t, arch, Change{Extras: []string{x.Name}})
				for a := range corners(c, callOf(with, c.NR)) {
					before, now := p.Evaluate(p.AuditArch(), c.NR, a), with.Evaluate(p.AuditArch(), c.NR, a)
					helps := before.Action != Allow && (now.Action == Allow || now.Action == Broker)
					if got := p.ExtraFor(p.AuditArch(), c.NR, a); helps != (got == x.Name) {
						t.Fatalf("%s: %s%#x: extra %q, and with %q it is %v", arch, c.Name, a, got, x.Name, now.Action)
					}
					if got := with.ExtraFor(p.AuditArch(), c.NR, a); got == x.Name {
						t.Fatalf("%s: %s%#x is refused with %s, which is named as its fix", arch, c.Name, a, x.Name)
					}
					if helps {
						found[x.Name]++
					}
				}
			}
		}
		if len(found) != len(Extras()) {
			t.Errorf("%s: only these extras allow anything: %v", arch, found)
		}
	}
	without := mustFor(t, "amd64", Change{Deny: []string{"syscall.ptrace"}})
	if got := without.ExtraFor(without.AuditArch(), 101, args()); got != "" {
		t.Errorf("a call that the run itself denied is to be fixed by %q", got)
	}
	p := mustDefault(t, "arm64")
	if got := p.ExtraFor(unix.AUDIT_ARCH_X86_64, 101, args()); got != "" {
		t.Errorf("a foreign call is to be fixed by %q", got)
	}
}

func TestChangeErrors(t *testing.T) {
	for _, c := range []struct {
		extras, deny []string
		name, why    string
	}{
		{[]string{"root"}, nil, "root", "is not one of: ptrace, io_uring, raw_socket, userns"},
		{[]string{Ptrace, ""}, nil, "", "is not one of"},
		{nil, []string{"ptrace"}, "ptrace", "syscall.NAME"},
		{nil, []string{"syscall."}, "syscall.", "is not one of"},
		{nil, []string{"syscall.nonsense"}, "syscall.nonsense", "is not one of"},
		{nil, []string{"syscall.execve"}, "syscall.execve", "no program starts"},
		{[]string{IOURing}, []string{DenySockets}, DenySockets, "io_uring"},
		{[]string{IOURing}, []string{"syscall.openat"}, "syscall.openat", "io_uring"},
		{[]string{UserNS}, []string{DenyExecOutsideBase}, DenyExecOutsideBase, "Landlock"},
	} {
		_, err := For("amd64", Change{Extras: c.extras, Deny: c.deny})
		var wrong *ChangeError
		if !errors.As(err, &wrong) || wrong.Name != c.name || wrong.Deny != (c.deny != nil) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%v %v: %v", c.extras, c.deny, err)
		}
	}
	for _, c := range []Change{
		{Extras: []string{IOURing}, Deny: []string{DenyProcesses, DenyExecOutsideBase}},
		{Deny: []string{"syscall.open"}}, // arm64 has none
		{Extras: slices.Collect(maps.Keys(map[string]bool{Ptrace: true, IOURing: true, RawSocket: true, UserNS: true}))},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			if _, err := For(arch, c); err != nil {
				t.Errorf("%s %+v: %v", arch, c, err)
			}
		}
	}
}

func TestChangeIsNormal(t *testing.T) {
	a := mustFor(t, "amd64", Change{Extras: []string{UserNS, Ptrace, UserNS}, Deny: []string{"syscall.getpid", DenySockets}})
	b := mustFor(t, "amd64", Change{Extras: []string{Ptrace, UserNS}, Deny: []string{DenySockets, "syscall.getpid", DenySockets}})
	if a.Hash() != b.Hash() || !slices.Equal(a.Change().Extras, b.Change().Extras) || !slices.Equal(a.Change().Deny, b.Change().Deny) {
		t.Errorf("%+v and %+v differ", a.Change(), b.Change())
	}
	hashes := map[string]string{}
	for name, p := range variants(t) {
		if other, twice := hashes[p.Hash()]; twice {
			t.Errorf("%s and %s share a hash", name, other)
		}
		hashes[p.Hash()] = name
	}
}

// TestNamedInWords: each is one sentence without an end mark.
func TestNamedInWords(t *testing.T) {
	for _, n := range slices.Concat(Extras(), Denials()) {
		if len(n.Why) < 20 || len(n.Why) > 240 || strings.HasSuffix(n.Why, ".") || strings.Contains(n.Why, "\n") {
			t.Errorf("%s: %q", n.Name, n.Why)
		}
	}
}

func callOf(p Policy, nr uint32) Call { return p.calls[nr] }

// corners yields combinations of the values that either call's cases name, with and without the bits that they do not look at.
func corners(calls ...Call) func(yield func([6]uint64) bool) {
	var values [6][]uint64
	var masks [6]uint64
	for _, c := range calls {
		for _, k := range c.Cases {
			for _, m := range k.When {
				values[m.Arg] = append(values[m.Arg], m.In...)
				masks[m.Arg] |= m.Mask
			}
		}
	}
	return func(yield func([6]uint64) bool) {
		for i := range values {
			slices.Sort(values[i])
			values[i] = slices.Compact(values[i])
		}
		list := [][6]uint64{{}, {^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}}
		for arg := range values {
			for _, a := range slices.Clone(list) {
				for _, v := range values[arg] {
					a[arg] = v
					list = append(list, a)
					a[arg] = v | ^masks[arg]
					list = append(list, a)
				}
			}
		}
		for _, a := range list {
			if !yield(a) {
				return
			}
		}
	}
}
