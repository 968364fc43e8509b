package policy

import "golang.org/x/sys/unix"

// Flags of clone. CLONE_NEWTIME is not among the namespaces: in this call its bit belongs to the exit signal.
const (
	newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	tracerChoice = unix.CLONE_UNTRACED | unix.CLONE_PTRACE
)

// Values that x/sys does not have for every architecture, from linux/seccomp.h, linux/sched.h, linux/fs.h and
// asm-generic/ioctls.h.
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
	ioctlInjectInput     = 0x5412     // TIOCSTI
	ioctlConsole         = 0x541c     // TIOCLINUX
	ioctlLineDiscipline  = 0x5423     // TIOCSETD
	ioctlProject         = 0x401c5820 // FS_IOC_FSSETXATTR
	ioctlReserve         = 0x40305828 // FS_IOC_RESVSP
	ioctlReserve64       = 0x4030582a // FS_IOC_RESVSP64
	ioctlZeroRange       = 0x40305839 // FS_IOC_ZERO_RANGE
	mapHuge              = 0x40000    // MAP_HUGETLB
	memfdHuge            = 0x4        // MFD_HUGETLB
	shmHuge              = 0o4000     // SHM_HUGETLB
	personalityUnchanged = 0xffffffff
)

// arguments are the calls that are decided by a register argument, sockets apart.
func arguments() []entry {
	return []entry{
		{"clone", []Case{
			allow("a process or thread in the same namespaces", bits(0, newNamespace|tracerChoice, 0)),
			deny("namespace", unix.EPERM, "with namespaces of its own", whyNoNamespace,
				bits(0, tracerChoice, 0)),
			deny("clone_untraced", unix.EPERM, "", whyNoUntraced),
		}},
		{"ioctl", []Case{
			deny("tiocsti", unix.EPERM, "TIOCSTI",
				"it types into the terminal as if the person in front of it did; write to the program's standard input instead",
				int32Arg(1, ioctlInjectInput)),
			deny("tioclinux", unix.EPERM, "TIOCLINUX",
				"it pastes into and reads from the node's console; a job has no console",
				int32Arg(1, ioctlConsole)),
			deny("tiocsetd", unix.EPERM, "TIOCSETD",
				"line disciplines are old network drivers behind a terminal, with a history of holes; a pty works without",
				int32Arg(1, ioctlLineDiscipline)),
			deny("fssetxattr", unix.EPERM, "FS_IOC_FSSETXATTR",
				"it moves a file to another disk quota; use chattr, which sets flags by FS_IOC_SETFLAGS",
				int32Arg(1, ioctlProject)),
			// Served by the kernel's common code for every file system, overlays included.
			deny("reserve", unix.EOPNOTSUPP, "FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE",
				"it is fallocate by another name and reserves any amount of disk at once; write the bytes",
				int32Arg(1, ioctlReserve, ioctlReserve64, ioctlZeroRange)),
			allow(""),
		}},
		{"personality", []Case{
			allow("0, or a question", int32Arg(0, 0, personalityUnchanged)),
			deny("personality", unix.EPERM, "", whyNoPersonality),
		}},
		{"prctl", []Case{
			deny("prctl_mm", unix.EPERM, "PR_SET_MM",
				"it rewrites what the kernel says about the process to others; use PR_SET_NAME to rename it",
				int32Arg(0, unix.PR_SET_MM)),
			deny("prctl_sched_core", unix.EPERM, "PR_SCHED_CORE",
				"core scheduling keeps the jails of different tenants apart and is not a job's to change",
				int32Arg(0, unix.PR_SCHED_CORE)),
			deny("merge", unix.EINVAL, "PR_SET_MEMORY_MERGE", whyNoMerging, int32Arg(0, unix.PR_SET_MEMORY_MERGE)),
			allow("every option of Linux 6.16 but these", int32Arg(0, processOptions()...)),
			deny("prctl_option", unix.EINVAL, "",
				"the option is newer than this list, and an older kernel answers the same; do without it"),
		}},
		// A listener's answer outranks this filter's stop, so that a program could answer its own refused calls with
		// "go on". Plain filters can only tighten.
		{"seccomp", []Case{
			allow("a plain filter", int32Arg(0, seccompFilter), bits(1, 0xffffffff&^seccompPlainFlags, 0)),
			allow("strict mode, or a question", int32Arg(0, seccompStrict, seccompActionAvail, seccompNotifSizes)),
			deny("seccomp_listener", unix.EPERM, "a filter with a listener",
				"whoever answers a listener could wave refused calls through; install a filter without SECCOMP_FILTER_FLAG_NEW_LISTENER",
				int32Arg(0, seccompFilter), bits(1, seccompNewListener, seccompNewListener)),
			deny("seccomp_flags", unix.EPERM, "a filter with any other flag",
				"these flags serve listeners only or are newer than this list; install the filter without them",
				int32Arg(0, seccompFilter)),
			deny("seccomp_operation", unix.EPERM, "",
				"the operation is newer than this list; use SECCOMP_SET_MODE_FILTER"),
		}},
		{"sched_setscheduler", []Case{
			allow("SCHED_OTHER, SCHED_BATCH, SCHED_IDLE", bits(1, 0xffffffff&^schedResetOnFork, schedOther, schedBatch, schedIdle)),
			deny("realtime", unix.EPERM, "",
				"a real-time thread is never asked to share the processor with others; use SCHED_OTHER, SCHED_BATCH or SCHED_IDLE"),
		}},
		// Where the agent counts what jobs write, this call would take the whole disk before anyone could count (Reserving is
		// for where it does not). The modes that only give space back are let through.
		{"fallocate", append([]Case{allow("a hole, or a collapsed range", int32Arg(1, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_COLLAPSE_RANGE))},
			quiet(unix.EOPNOTSUPP,
				"it reserves any amount of disk at once, before anyone has counted it; write the bytes, as posix_fallocate does by itself; where the file system holds jobs to their disk limits by project quotas, it is allowed")...)},
		{"mmap", ordinaryPages(3, mapHuge)},
		{"memfd_create", ordinaryPages(1, memfdHuge)},
		{"shmget", ordinaryPages(2, shmHuge)},
		{"mknod", makeNode(1)},
		{"mknodat", makeNode(2)},
	}
}

// Reasons that an extra's cases give too, for what it leaves refused.
const (
	whyNoNamespace   = "a jail makes no namespaces of its own, since they open most of the kernel to the program; run what needs another sandbox as a job of its own"
	whyNoUntraced    = "it chooses who traces the new process, and an untraced one could be refused calls without a word; clone without CLONE_UNTRACED and CLONE_PTRACE"
	whyNoPersonality = "it switches hardening off or makes the kernel pretend to be another; run without setarch"
)

// processOptions are the options of prctl that act on the caller alone, or need a capability that no job has. The gaps are
// prctl_mm, prctl_sched_core, merge, and from 79 on what came after this list.
func processOptions() []uint64 {
	options := []uint64{unix.PR_SET_PTRACER, unix.PR_SET_VMA, unix.PR_GET_AUXV}
	for o := uint64(unix.PR_SET_PDEATHSIG); o <= unix.PR_FUTEX_HASH; o++ {
		if o != unix.PR_SET_MM && o != unix.PR_SCHED_CORE && o != unix.PR_SET_MEMORY_MERGE {
			options = append(options, o)
		}
	}
	return options
}

// ordinaryPages takes the argument that holds the flags, and the flag that asks for pages of the node's pool: whoever maps
// them first has them, and neither the memory controller nor any rlimit counts them. The errno is that of an empty pool.
func ordinaryPages(flags int, huge uint64) []Case {
	return []Case{
		deny("huge_pages", unix.ENOMEM, "huge pages",
			"they come from a pool of the node's that no limit of a job counts; use ordinary memory, where madvise(MADV_HUGEPAGE) gives large pages too",
			bits(flags, huge, huge)),
		allow(""),
	}
}

// makeNode takes the argument that holds the file mode. The kernel looks at 16 bits of it.
func makeNode(mode int) []Case {
	return []Case{
		allow("a file, fifo or socket", bits(mode, unix.S_IFMT, 0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK)),
		deny("device_node", unix.EPERM, "",
			"a device file is a door to a driver, or a deletion mark in an overlay; use the devices in /dev, or a fifo",
		),
	}
}
