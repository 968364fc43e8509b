package policy

import (
	"slices"
	"strings"
	"testing"
)

// honest is what language runtimes, compilers, shells and their libraries call in ordinary work. Each line is here for
// what broke, somewhere, when it was refused.
const honest = `
	read write open openat openat2 close close_range lseek pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2
	stat fstat lstat newfstatat statx access faccessat faccessat2 statfs fstatfs
	getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2
	link linkat symlink symlinkat readlink readlinkat chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask
	truncate ftruncate fallocate fsync fdatasync syncfs sync_file_range fadvise64 readahead
	copy_file_range sendfile splice tee vmsplice
	setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr
	setxattrat getxattrat listxattrat removexattrat
	utime utimes futimesat utimensat flock fcntl dup dup2 dup3 pipe pipe2
	inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
	mmap munmap mprotect mremap madvise msync mincore brk mlock mlock2 munlock mlockall munlockall
	memfd_create pkey_alloc pkey_free pkey_mprotect membarrier map_shadow_stack remap_file_pages
	shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
	mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
	fork vfork execve execveat exit exit_group wait4 waitid
	kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend
	rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack signalfd signalfd4 pause restart_syscall
	pidfd_open pidfd_send_signal
	futex futex_waitv futex_wait futex_wake futex_requeue set_robust_list get_robust_list set_tid_address rseq
	sched_yield sched_getaffinity sched_setaffinity sched_getscheduler sched_setscheduler sched_getparam sched_setparam
	sched_getattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval getcpu
	getpriority setpriority ioprio_get ioprio_set
	getrlimit setrlimit prlimit64 getrusage times sysinfo uname
	getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups getpgid getpgrp getsid
	setpgid setsid setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid setfsgid capget capset
	poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
	eventfd eventfd2 timerfd_create timerfd_settime timerfd_gettime
	timer_create timer_settime timer_gettime timer_getoverrun timer_delete alarm getitimer setitimer
	nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time
	socket socketpair bind listen accept accept4 connect shutdown getsockname getpeername
	sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg setsockopt getsockopt
	clone ioctl prctl arch_prctl seccomp personality getrandom mknod mknodat creat
	landlock_create_ruleset landlock_add_rule landlock_restrict_self
	uretprobe uprobe
`

func TestHonestCallsAreAllowed(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p := mustDefault(t, arch)
		found := 0
		for _, name := range strings.Fields(honest) {
			call, ok := p.Lookup(name)
			if !ok {
				continue // the architecture never had it: arm64 has no open, no fork
			}
			found++
			if !slices.ContainsFunc(call.Cases, func(k Case) bool { return k.Action == Allow }) {
				t.Errorf("%s: %s is refused: %+v", arch, name, call.Cases)
			}
		}
		if found < 200 {
			t.Errorf("%s: only %d of the names exist", arch, found)
		}
	}
}

// TestFallbackCalls holds the calls on which EPERM breaks runtimes: each works or answers ENOSYS.
func TestFallbackCalls(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p := mustDefault(t, arch)
		for name, want := range map[string]Action{
			"faccessat2": Allow, "statx": Allow, "openat2": Allow, "close_range": Allow, "rseq": Allow, "futex_waitv": Allow,
			"epoll_pwait2": Allow, "membarrier": Allow, "clone3": Quiet,
		} {
			call, _ := p.Lookup(name)
			if v := p.Evaluate(p.AuditArch(), call.NR, args()); v.Action != want {
				t.Errorf("%s: %s = %v %v", arch, name, v.Action, v.Errno)
			}
		}
	}
}
