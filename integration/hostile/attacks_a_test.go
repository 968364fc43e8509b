package hostile

import "time"

// Chapter A: the system call filter and those who answer for it.
var attacksA = []attack{
	{id: "A1", file: "a01_path_race.py", held: 2},
	{id: "A3", file: "a03_exec_race.py", held: 2},
	{id: "A6", file: "a06_unreadable.py", held: 53, rules: []string{"syscall.mount", "syscall.seccomp_filter"}, weak: []string{"keyctl *"}},
	{id: "A7", file: "testdata/a07_i386.c", held: 1, weak: []string{"i386-*"}},
	{id: "A8", file: "testdata/a08_x32.c", held: 20, rules: []string{"syscall.ptrace", "syscall.unknown"}},
	{id: "A10", file: "a10_io_uring.py", held: 3, rules: []string{"syscall.io_uring_setup"}, weak: []string{"io_uring_setup"}},
	{id: "A11", file: "a11_userns.py", held: 11, rules: []string{"syscall.unshare"}},
	{id: "A12", file: "a12_fallbacks.py", held: 14},
	{id: "A13", file: "a13_tty.py", held: 12, rules: []string{"syscall.tiocsti", "syscall.tioclinux"}},
	{id: "A15", file: "a15_listener.py", held: 18, rules: []string{"syscall.seccomp_filter", "syscall.seccomp_operation"}, weak: []string{"listener", "plain"}},
	{id: "A15", file: "a15_loop.py", held: 79, rules: []string{"syscall.seccomp_filter"}, weak: []string{"listener *", "raw *"}},
	{id: "A16", file: "a16_ptrace.py", held: 9, rules: []string{"syscall.ptrace"}, weak: []string{"traceme", "seize-child"}},
	{id: "A17", file: "a17_memory.py", held: 17, rules: []string{"syscall.process_vm_readv", "syscall.pidfd_getfd"}},
	{id: "A18", file: "a18_signals.py", held: 22},
	{id: "A21", file: "a21_privilege.py", held: 13},
	{id: "A22", file: "a22_threads.py", held: 6},
	{id: "A24", file: "testdata/a24_vanish.c", alone: true, held: 1, within: 60 * time.Second},

	// What is not on anybody's list.
	{id: "A", file: "a_stdio.py", held: 21},
	{id: "A-stdin", file: "a_stdio.py", held: 21, stdin: "some text\n"},
	{id: "A", file: "a_prctl.py", held: 20, rules: []string{"syscall.seccomp_filter", "syscall.prctl_mm", "syscall.prctl_sched_core"}},
	{id: "A", file: "a_warden.py", held: 60},
}
