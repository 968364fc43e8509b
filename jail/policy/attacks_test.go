package policy

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const absent = -1

// TestKernelSurface holds the calls that open up the kernel or the node, each with the arguments of an actual attempt. A
// call that an architecture lacks has no number there.
func TestKernelSurface(t *testing.T) {
	const minus3 = ^uint64(2)
	policies := both(t)
	for _, c := range []struct {
		name         string
		amd64, arm64 int
		args         [6]uint64
		errno        syscall.Errno
		rule         string
	}{
		{"keyctl", 250, 219, args(0, minus3), unix.EPERM, "syscall.keyctl"},
		{"add_key", 248, 217, args(1, 1, 1, 1, minus3), unix.EPERM, "syscall.add_key"},
		{"request_key", 249, 218, args(1, 1, 0, 0), unix.EPERM, "syscall.request_key"},
		{"bpf", 321, 280, args(0, 0, 0), unix.EPERM, "syscall.bpf"},
		{"perf_event_open", 298, 241, args(0, 0, ^uint64(0), ^uint64(0), 0), unix.EPERM, "syscall.perf_event_open"},
		{"userfaultfd", 323, 282, args(0), unix.EPERM, "syscall.userfaultfd"},
		{"io_uring_setup", 425, 425, args(1, 0), unix.ENOSYS, "syscall.io_uring_setup"},
		{"io_uring_enter", 426, 426, args(3, 1, 0), unix.ENOSYS, "syscall.io_uring_enter"},
		{"io_uring_register", 427, 427, args(3, 0, 0), unix.ENOSYS, "syscall.io_uring_register"},
		{"kexec_load", 246, 104, args(0, 0, 0, 0), unix.EPERM, "syscall.kexec_load"},
		{"kexec_file_load", 320, 294, args(0, 0, 0, 0), unix.EPERM, "syscall.kexec_file_load"},
		{"init_module", 175, 105, args(0, 0, 1), unix.EPERM, "syscall.init_module"},
		{"finit_module", 313, 273, args(0, 1, 0), unix.EPERM, "syscall.finit_module"},
		{"delete_module", 176, 106, args(1, 0), unix.EPERM, "syscall.delete_module"},
		{"iopl", 172, absent, args(3), unix.EPERM, "syscall.iopl"},
		{"ioperm", 173, absent, args(0, 1, 1), unix.EPERM, "syscall.ioperm"},
		{"swapon", 167, 224, args(1, 0), unix.EPERM, "syscall.swapon"},
		{"swapoff", 168, 225, args(1), unix.EPERM, "syscall.swapoff"},
		{"reboot", 169, 142, args(0xfee1dead, 672274793, 0), unix.EPERM, "syscall.reboot"},
		{"settimeofday", 164, 170, args(0, 0), unix.EPERM, "syscall.settimeofday"},
		{"clock_settime", 227, 112, args(0, 0), unix.EPERM, "syscall.clock_settime"},
		{"adjtimex", 159, 171, args(0), unix.EPERM, "syscall.adjtimex"},
		{"clock_adjtime", 305, 266, args(0, 0), unix.EPERM, "syscall.clock_adjtime"},
		{"acct", 163, 89, args(1), unix.EPERM, "syscall.acct"},
		{"syslog", 103, 116, args(2, 0, 0), unix.EPERM, "syscall.syslog"},
		{"quotactl", 179, 60, args(0, 0, 0, 0), unix.EPERM, "syscall.quotactl"},
		{"quotactl_fd", 443, 443, args(0, 0, 0, 0), unix.EPERM, "syscall.quotactl_fd"},
		{"lookup_dcookie", 212, 18, args(0, 0, 0), unix.EPERM, "syscall.lookup_dcookie"},
		{"setns", 308, 268, args(0, 0), unix.EPERM, "syscall.setns"},
		{"unshare", 272, 97, args(unix.CLONE_NEWUSER), unix.EPERM, "syscall.unshare"},
		{"unshare", 272, 97, args(unix.CLONE_FS), unix.EPERM, "syscall.unshare"},
		{"clone", 56, 220, args(unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)), unix.EPERM, "syscall.namespace"},
		{"open_by_handle_at", 304, 265, args(0, 0, 0), unix.EPERM, "syscall.open_by_handle_at"},
		{"name_to_handle_at", 303, 264, args(0, 0, 0), unix.EPERM, "syscall.name_to_handle_at"},
		{"fanotify_init", 300, 262, args(0, 0), unix.EPERM, "syscall.fanotify_init"},
		{"fanotify_mark", 301, 263, args(0, 0), unix.EPERM, "syscall.fanotify_mark"},
		{"modify_ldt", 154, absent, args(0, 0, 0), unix.EPERM, "syscall.modify_ldt"},
		{"personality", 135, 92, args(0x20000), unix.EPERM, "syscall.personality"},
		{"ptrace", 101, 117, args(0), unix.EPERM, "syscall.ptrace"},
		{"ptrace", 101, 117, args(0x4206, 1), unix.EPERM, "syscall.ptrace"},
		{"process_vm_readv", 310, 270, args(1), unix.EPERM, "syscall.process_vm_readv"},
		{"process_vm_writev", 311, 271, args(1), unix.EPERM, "syscall.process_vm_writev"},
		{"process_madvise", 440, 440, args(3), unix.EPERM, "syscall.process_madvise"},
		{"kcmp", 312, 272, args(1, 2), unix.EPERM, "syscall.kcmp"},
		{"pidfd_getfd", 438, 438, args(3, 0, 0), unix.EPERM, "syscall.pidfd_getfd"},
		{"move_pages", 279, 239, args(1), unix.EPERM, "syscall.move_pages"},
		{"migrate_pages", 256, 238, args(1), unix.EPERM, "syscall.migrate_pages"},
		{"set_mempolicy", 238, 237, args(), unix.ENOSYS, "syscall.set_mempolicy"},
		{"mount", 165, 40, args(), unix.EPERM, "syscall.mount"},
		{"umount2", 166, 39, args(1, unix.MNT_DETACH), unix.EPERM, "syscall.umount2"},
		{"pivot_root", 155, 41, args(), unix.EPERM, "syscall.pivot_root"},
		{"chroot", 161, 51, args(), unix.EPERM, "syscall.chroot"},
		{"fsopen", 430, 430, args(1, 0), unix.EPERM, "syscall.fsopen"},
		{"fsconfig", 431, 431, args(), unix.EPERM, "syscall.fsconfig"},
		{"fsmount", 432, 432, args(), unix.EPERM, "syscall.fsmount"},
		{"fspick", 433, 433, args(), unix.EPERM, "syscall.fspick"},
		{"move_mount", 429, 429, args(), unix.EPERM, "syscall.move_mount"},
		{"open_tree", 428, 428, args(^uint64(99), 1, 1), unix.EPERM, "syscall.open_tree"},
		{"open_tree_attr", 467, 467, args(), unix.EPERM, "syscall.open_tree_attr"},
		{"mount_setattr", 442, 442, args(^uint64(99), 1, 0, 0, 0), unix.EPERM, "syscall.mount_setattr"},
		{"memfd_secret", 447, 447, args(0), unix.ENOSYS, "syscall.memfd_secret"},
		{"statmount", 457, 457, args(), unix.ENOSYS, "syscall.statmount"},
		{"listmount", 458, 458, args(), unix.ENOSYS, "syscall.listmount"},
		{"listns", 470, 470, args(), unix.ENOSYS, "syscall.listns"},
		{"sethostname", 170, 161, args(1, 1), unix.EPERM, "syscall.sethostname"},
		{"setdomainname", 171, 162, args(1, 1), unix.EPERM, "syscall.setdomainname"},
		{"sched_setattr", 314, 274, args(0, 0, 0), unix.EPERM, "syscall.sched_setattr"},
		{"sched_setscheduler", 144, 119, args(0, 1, 1), unix.EPERM, "syscall.realtime"},
		{"vhangup", 153, 58, args(), unix.EPERM, "syscall.vhangup"},
		{"nfsservctl", 180, 42, args(), unix.ENOSYS, "syscall.nfsservctl"},
		{"io_setup", 206, 0, args(1), unix.ENOSYS, "syscall.io_setup"},
		{"sync", 162, 81, args(), unix.EPERM, "syscall.sync"},
	} {
		for arch, nr := range map[string]int{"amd64": c.amd64, "arm64": c.arm64} {
			p := policies[arch]
			if nr == absent {
				if _, ok := p.Lookup(c.name); ok {
					t.Errorf("%s: %s exists and has no number in this test", arch, c.name)
				}
				continue
			}
			if _, _, name := Name(p.AuditArch(), uint32(nr)); name != c.name {
				t.Errorf("%s: call %d is %q, want %q", arch, nr, name, c.name)
			}
			v := p.Evaluate(p.AuditArch(), uint32(nr), c.args)
			if v.Action != Trace || v.Errno != c.errno || v.Rule != c.rule {
				t.Errorf("%s: %s%#x = %v %v %q, want a recorded %v by %q", arch, c.name, c.args, v.Action, v.Errno, v.Rule, c.errno, c.rule)
			}
		}
	}
}

// TestQuietRefusals holds the only calls that are refused without a word.
func TestQuietRefusals(t *testing.T) {
	want := map[string]syscall.Errno{"clone3": unix.ENOSYS, "get_mempolicy": unix.ENOSYS, "mbind": unix.ENOSYS, "mseal": unix.ENOSYS, "fallocate": unix.EOPNOTSUPP}
	for _, arch := range []string{"amd64", "arm64"} {
		p := mustDefault(t, arch)
		for c := range p.Calls() {
			v := p.Evaluate(p.AuditArch(), c.NR, args())
			if errno, quiet := want[c.Name]; (v.Action == Quiet) != quiet || quiet && v.Errno != errno {
				t.Errorf("%s: %s = %v %v", arch, c.Name, v.Action, v.Errno)
			}
		}
	}
}

// TestForeignABI holds the other ways into the kernel: whatever the number, nothing is let through.
func TestForeignABI(t *testing.T) {
	amd64, arm64 := mustDefault(t, "amd64"), mustDefault(t, "arm64")
	for nr := range uint32(700) {
		for _, v := range []Verdict{
			amd64.Evaluate(unix.AUDIT_ARCH_I386, nr, args()),
			amd64.Evaluate(unix.AUDIT_ARCH_AARCH64, nr, args()),
			amd64.Evaluate(0, nr, args()),
			amd64.Evaluate(unix.AUDIT_ARCH_X86_64, x32Bit|nr, args()),
			amd64.Evaluate(unix.AUDIT_ARCH_X86_64, 1<<31|x32Bit|nr, args()),
			amd64.Evaluate(unix.AUDIT_ARCH_X86_64, 1<<31|nr, args()),
			arm64.Evaluate(unix.AUDIT_ARCH_ARM, nr, args()),
			arm64.Evaluate(unix.AUDIT_ARCH_X86_64, nr, args()),
		} {
			if v != Foreign() {
				t.Fatalf("call %d by a foreign ABI = %+v", nr, v)
			}
		}
	}
	if v := Foreign(); v.Action != Trace || v.Errno != unix.ENOSYS || v.Rule != "syscall.abi" {
		t.Errorf("foreign ABI = %+v", v)
	}
}

// TestUnknownNumbers holds numbers without a call: gaps, calls newer than the table, and no number at all.
func TestUnknownNumbers(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p := mustDefault(t, arch)
		for _, nr := range []uint32{400, 472, 500, 511, 547, 1 << 20, x32Bit - 1, ^uint32(0)} {
			if v := p.Evaluate(p.AuditArch(), nr, args()); v != Unknown() {
				t.Errorf("%s: call %d = %+v", arch, nr, v)
			}
		}
	}
	if v := Unknown(); v.Action != Trace || v.Errno != unix.ENOSYS || v.Rule != "syscall.unknown" {
		t.Errorf("unknown = %+v", v)
	}
}

func args(a ...uint64) (all [6]uint64) {
	copy(all[:], a)
	return all
}

func both(t testing.TB) map[string]Policy {
	t.Helper()
	return map[string]Policy{"amd64": mustDefault(t, "amd64"), "arm64": mustDefault(t, "arm64")}
}

func mustDefault(t testing.TB, arch string) Policy {
	t.Helper()
	p, err := Default(arch)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
