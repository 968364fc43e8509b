package policy

import "golang.org/x/sys/unix"

// Flags of clone. CLONE_NEWTIME is not among the namespaces: in this call its bit belongs to the exit signal.
const (
	newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	tracerChoice = unix.CLONE_UNTRACED | unix.CLONE_PTRACE
)

// Values that x/sys does not have for every architecture, from linux/seccomp.h, linux/sched.h and asm-generic/ioctls.h.
const (
	seccompStrict        = 0
	seccompFilter        = 1
	seccompActionAvail   = 2
	seccompNotifSizes    = 3
	seccompNewListener   = 1 << 3
	seccompPlainFlags    = 1<<0 | 1<<1 | 1<<2 // TSYNC, LOG, SPEC_ALLOW
	schedResetOnFork     = 0x40000000
	schedOther           = 0
	schedBatch           = 3
	schedIdle            = 5
	ioctlInjectInput     = 0x5412 // TIOCSTI
	ioctlConsole         = 0x541c // TIOCLINUX
	ioctlLineDiscipline  = 0x5423 // TIOCSETD
	personalityUnchanged = 0xffffffff
)

// arguments are the calls that are decided by a register argument, sockets apart.
func arguments() []entry {
	return []entry{
		{"clone", []Case{
			allow(bits(0, newNamespace|tracerChoice, 0)),
			deny("namespace", unix.EPERM,
				"a jail makes no namespaces of its own, since they open most of the kernel to the program; run what needs another sandbox as a job of its own",
				bits(0, tracerChoice, 0)),
			deny("clone_untraced", unix.EPERM,
				"it chooses who traces the new process, and an untraced one could be refused calls without a word; clone without CLONE_UNTRACED and CLONE_PTRACE"),
		}},
		{"ioctl", []Case{
			deny("tiocsti", unix.EPERM,
				"it types into the terminal as if the person in front of it did; write to the program's standard input instead",
				int32Arg(1, ioctlInjectInput)),
			deny("tioclinux", unix.EPERM,
				"it pastes into and reads from the node's console; a job has no console",
				int32Arg(1, ioctlConsole)),
			deny("tiocsetd", unix.EPERM,
				"line disciplines are old network drivers behind a terminal, with a history of holes; a pty works without",
				int32Arg(1, ioctlLineDiscipline)),
			allow(),
		}},
		{"personality", []Case{
			allow(int32Arg(0, 0, personalityUnchanged)),
			deny("personality", unix.EPERM,
				"it switches hardening off or makes the kernel pretend to be another; run without setarch"),
		}},
		{"prctl", []Case{
			deny("prctl_mm", unix.EPERM,
				"it rewrites what the kernel says about the process to others; use PR_SET_NAME to rename it",
				int32Arg(0, unix.PR_SET_MM)),
			deny("prctl_sched_core", unix.EPERM,
				"core scheduling keeps the jails of different tenants apart and is not a job's to change",
				int32Arg(0, unix.PR_SCHED_CORE)),
			allow(),
		}},
		// A listener's answer outranks this filter's stop, so that a program could answer its own refused calls with
		// "go on". Plain filters can only tighten.
		{"seccomp", []Case{
			allow(int32Arg(0, seccompFilter), bits(1, 0xffffffff&^seccompPlainFlags, 0)),
			allow(int32Arg(0, seccompStrict, seccompActionAvail, seccompNotifSizes)),
			deny("seccomp_listener", unix.EPERM,
				"whoever answers a listener could wave refused calls through; install a filter without SECCOMP_FILTER_FLAG_NEW_LISTENER",
				int32Arg(0, seccompFilter), bits(1, seccompNewListener, seccompNewListener)),
			deny("seccomp_flags", unix.EPERM,
				"these flags serve listeners only or are newer than this list; install the filter without them",
				int32Arg(0, seccompFilter)),
			deny("seccomp_operation", unix.EPERM,
				"the operation is newer than this list; use SECCOMP_SET_MODE_FILTER"),
		}},
		{"sched_setscheduler", []Case{
			allow(bits(1, 0xffffffff&^schedResetOnFork, schedOther, schedBatch, schedIdle)),
			deny("realtime", unix.EPERM,
				"a real-time thread is never asked to share the processor with others; use SCHED_OTHER, SCHED_BATCH or SCHED_IDLE"),
		}},
		{"mknod", makeNode(1)},
		{"mknodat", makeNode(2)},
	}
}

// makeNode takes the argument that holds the file mode. The kernel looks at 16 bits of it.
func makeNode(mode int) []Case {
	return []Case{
		allow(bits(mode, unix.S_IFMT, 0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK)),
		deny("device_node", unix.EPERM,
			"a device file is a door to a driver, or a deletion mark in an overlay; use the devices in /dev, or a fifo",
		),
	}
}
