package explain

import "golang.org/x/sys/unix"

const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Flags of clone, unshare and setns (linux/sched.h).
var cloneFlags = []named{
	{unix.CLONE_NEWUSER, "CLONE_NEWUSER"},
	{unix.CLONE_NEWNS, "CLONE_NEWNS"},
	{unix.CLONE_NEWPID, "CLONE_NEWPID"},
	{unix.CLONE_NEWNET, "CLONE_NEWNET"},
	{unix.CLONE_NEWIPC, "CLONE_NEWIPC"},
	{unix.CLONE_NEWUTS, "CLONE_NEWUTS"},
	{unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
	{unix.CLONE_NEWTIME, "CLONE_NEWTIME"},
	{unix.CLONE_UNTRACED, "CLONE_UNTRACED"},
	{unix.CLONE_PTRACE, "CLONE_PTRACE"},
	{unix.CLONE_THREAD, "CLONE_THREAD"},
	{unix.CLONE_VM, "CLONE_VM"},
	{unix.CLONE_FS, "CLONE_FS"},
	{unix.CLONE_FILES, "CLONE_FILES"},
	{unix.CLONE_SIGHAND, "CLONE_SIGHAND"},
	{unix.CLONE_SYSVSEM, "CLONE_SYSVSEM"},
}

// Requests of ptrace that are the same everywhere (linux/ptrace.h).
var ptraceRequests = []named{
	{0, "PTRACE_TRACEME"},
	{1, "PTRACE_PEEKTEXT"},
	{2, "PTRACE_PEEKDATA"},
	{3, "PTRACE_PEEKUSR"},
	{4, "PTRACE_POKETEXT"},
	{5, "PTRACE_POKEDATA"},
	{6, "PTRACE_POKEUSR"},
	{7, "PTRACE_CONT"},
	{8, "PTRACE_KILL"},
	{9, "PTRACE_SINGLESTEP"},
	{16, "PTRACE_ATTACH"},
	{17, "PTRACE_DETACH"},
	{24, "PTRACE_SYSCALL"},
	{0x4200, "PTRACE_SETOPTIONS"},
	{0x4201, "PTRACE_GETEVENTMSG"},
	{0x4202, "PTRACE_GETSIGINFO"},
	{0x4203, "PTRACE_SETSIGINFO"},
	{0x4204, "PTRACE_GETREGSET"},
	{0x4205, "PTRACE_SETREGSET"},
	{0x4206, "PTRACE_SEIZE"},
	{0x4207, "PTRACE_INTERRUPT"},
	{0x4208, "PTRACE_LISTEN"},
	{0x4209, "PTRACE_PEEKSIGINFO"},
	{0x420e, "PTRACE_GET_SYSCALL_INFO"},
}

// Scheduling policies (linux/sched.h).
var schedulers = []named{
	{0, "SCHED_OTHER"},
	{1, "SCHED_FIFO"},
	{2, "SCHED_RR"},
	{3, "SCHED_BATCH"},
	{5, "SCHED_IDLE"},
	{6, "SCHED_DEADLINE"},
	{7, "SCHED_EXT"},
}

// Personality flags (linux/personality.h).
var personalities = []named{
	{0x0020000, "UNAME26"},
	{0x0040000, "ADDR_NO_RANDOMIZE"},
	{0x0080000, "FDPIC_FUNCPTRS"},
	{0x0100000, "MMAP_PAGE_ZERO"},
	{0x0200000, "ADDR_COMPAT_LAYOUT"},
	{0x0400000, "READ_IMPLIES_EXEC"},
	{0x0800000, "ADDR_LIMIT_32BIT"},
	{0x1000000, "SHORT_INODE"},
	{0x2000000, "WHOLE_SECONDS"},
	{0x4000000, "STICKY_TIMEOUTS"},
	{0x8000000, "ADDR_LIMIT_3GB"},
	{0x8, "PER_LINUX32"},
}

// Options of prctl that a policy may refuse (linux/prctl.h).
var prctlOptions = []named{
	{unix.PR_SET_MM, "PR_SET_MM"},
	{unix.PR_SCHED_CORE, "PR_SCHED_CORE"},
	{unix.PR_SET_MEMORY_MERGE, "PR_SET_MEMORY_MERGE"},
}

// Operations and flags of seccomp (linux/seccomp.h).
var seccompOperations = []named{
	{0, "SECCOMP_SET_MODE_STRICT"},
	{1, "SECCOMP_SET_MODE_FILTER"},
	{2, "SECCOMP_GET_ACTION_AVAIL"},
	{3, "SECCOMP_GET_NOTIF_SIZES"},
}

var seccompFlags = []named{
	{1 << 0, "TSYNC"},
	{1 << 1, "LOG"},
	{1 << 2, "SPEC_ALLOW"},
	{1 << 3, "NEW_LISTENER"},
	{1 << 4, "TSYNC_ESRCH"},
	{1 << 5, "WAIT_KILLABLE_RECV"},
}
