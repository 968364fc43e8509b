package policy

import "golang.org/x/sys/unix"

// otherProcesses are ways into another process that need no file.
func otherProcesses() []entry {
	return []entry{
		{"ptrace", refuse(unix.EPERM,
			"a tracer rewrites another process, and a second one beside the warden; debug it outside, or print what you need from inside it")},
		{"process_vm_readv process_vm_writev", refuse(unix.EPERM,
			"it reaches into the memory of another process; share memory with memfd_create or shm_open, or use a pipe")},
		{"process_madvise process_mrelease", refuse(unix.EPERM,
			"it manages the memory of another process, which is a resource manager's work; use madvise on your own")},
		{"pidfd_getfd", refuse(unix.EPERM,
			"it takes a descriptor out of another process; have that process send it over a unix socket (SCM_RIGHTS)")},
		{"kcmp", refuse(unix.EPERM,
			"it compares kernel objects of two processes and tells kernel addresses apart; compare with fstat instead")},
	}
}

// namespaces are ways to make, enter or rearrange the spaces a jail is made of.
func namespaces() []entry {
	return []entry{
		{"unshare", refuse(unix.EPERM, whyNoNamespace)},
		{"setns", refuse(unix.EPERM,
			"a jail stays in the namespaces it was given; there is no other one to enter")},
		{"chroot pivot_root", refuse(unix.EPERM,
			"the root directory belongs to the jail; work with paths relative to a directory instead")},
		{"mount umount2 mount_setattr move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick", refuse(unix.EPERM,
			"the mounts of a jail are fixed when it starts; write below /workspace, or use /tmp for what is to vanish")},
		{"open_by_handle_at name_to_handle_at", refuse(unix.EPERM,
			"a file handle opens a file past every directory above it; open it by its path")},
		{"sethostname setdomainname", refuse(unix.EPERM,
			"the host name of a jail is given to it; set HOSTNAME in the environment if a program wants another")},
		{"fanotify_init fanotify_mark", refuse(unix.EPERM,
			"it watches whole file systems; watch directories with inotify")},
	}
}

// kernel are calls that load code into the kernel or expose parts of it that attacks live on.
func kernel() []entry {
	return []entry{
		{"bpf", refuse(unix.EPERM,
			"it loads programs into the kernel; do the work in the program itself")},
		{"perf_event_open", refuse(unix.EPERM,
			"performance counters see the kernel and the neighbours; measure with clock_gettime and getrusage, or with a profiler that samples by timer")},
		{"userfaultfd", refuse(unix.EPERM,
			"it lets a program hold the kernel still in the middle of a call; use mprotect and a SIGSEGV handler")},
		{"add_key request_key keyctl", refuse(unix.EPERM,
			"keyrings are not kept apart by all of a jail's walls; keep secrets in memory or in a file of mode 0600")},
		{"init_module finit_module delete_module kexec_load kexec_file_load", refuse(unix.EPERM,
			"it changes the running kernel, which the whole node shares")},
		{"iopl ioperm", refuse(unix.EPERM,
			"it gives a program the machine's input and output ports")},
		{"modify_ldt", refuse(unix.EPERM,
			"segment tables serve 16-bit and 32-bit code only; build the program for 64 bits")},
		{"lookup_dcookie", refuse(unix.EPERM,
			"it turns a profiler's cookie into a path of the node; it is gone from newer kernels")},
		{"syslog", refuse(unix.EPERM,
			"the kernel's log is about the whole node; log to standard error")},
	}
}

// node are calls that change or exhaust what all jobs of a node share.
func node() []entry {
	return []entry{
		{"settimeofday clock_settime adjtimex clock_adjtime", refuse(unix.EPERM,
			"the clock is the node's, and reading it by this call cannot be told from setting it; read it with clock_gettime")},
		{"reboot swapon swapoff acct quotactl quotactl_fd vhangup", refuse(unix.EPERM,
			"it administers the node; a job has nothing to administer")},
		{"sched_setattr", refuse(unix.EPERM,
			"its arguments lie in memory, so that real-time policies cannot be told from others; use sched_setscheduler or nice")},
		{"move_pages migrate_pages", refuse(unix.EPERM,
			"it moves memory between the node's NUMA nodes, of other processes too; leave placement to the kernel")},
		{"set_mempolicy set_mempolicy_home_node", refuse(unix.ENOSYS,
			"memory placement is the node's; programs that ask for it run without")},
		{"get_mempolicy mbind", quiet(unix.ENOSYS,
			"memory placement is the node's; libraries, OpenBLAS below numpy among them, ask as they load or allocate, and run without")},
		{"io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents", refuse(unix.ENOSYS,
			"the node has one small budget of asynchronous contexts for everybody (fs.aio-max-nr), which one job could use up; use threads with pread and pwrite")},
		{"sync", refuse(unix.EPERM,
			"it writes out every file system of the node and lets all its neighbours wait; use fsync or fdatasync on your files")},
	}
}

// optional are calls that programs try and fall back from, and that are not worth what they expose.
func optional() []entry {
	return []entry{
		{"clone3", quiet(unix.ENOSYS,
			"its flags lie in memory, so that namespaces cannot be told from threads; C libraries fall back to clone by themselves")},
		{"io_uring_setup io_uring_enter io_uring_register", refuse(unix.ENOSYS,
			"it carries out calls that no filter sees; use epoll, or threads with ordinary calls, as most libraries do by themselves")},
		{"memfd_secret", refuse(unix.ENOSYS,
			"it takes memory out of the kernel's own reach; use memfd_create or mmap")},
		{"mseal", quiet(unix.ENOSYS,
			"it is an optional hardening that programs do without")},
		{"statmount listmount listns", refuse(unix.ENOSYS,
			"it describes mounts and namespaces; read /proc/self/mountinfo")},
		{"cachestat", refuse(unix.ENOSYS,
			"it tells what others have read of files that all jobs share; measure your own reads")},
		{"lsm_get_self_attr lsm_set_self_attr lsm_list_modules", refuse(unix.ENOSYS,
			"it is about the security modules of the node; read /proc/self/attr if you must")},
		{"file_getattr file_setattr", refuse(unix.ENOSYS,
			"it is newer than programs rely on; use the ioctl FS_IOC_GETFLAGS")},
		{"rseq_slice_yield", refuse(unix.ENOSYS,
			"it is newer than programs rely on; use sched_yield")},
		// Like uretprobe, which is on the engines' list: the kernel puts this call into programs that the node's operator
		// probes, and lets it past filters in newer versions. Made by hand it does nothing.
		{"uprobe", []Case{allow("")}},
	}
}

// obsolete are calls that current kernels answer with ENOSYS, or should.
func obsolete() []entry {
	return []entry{
		{"uselib ustat sysfs", refuse(unix.ENOSYS,
			"it is left over from early kernels; use dlopen, statfs or /proc/filesystems")},
		{"_sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall tuxcall security vserver", refuse(unix.ENOSYS,
			"the call is long gone from the kernel")},
	}
}
