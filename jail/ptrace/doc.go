// Package ptrace is the part of ptrace(2) that the warden needs: seize a program before its first instruction, follow
// everything it starts, and answer the system calls that a filter handed over with an error; or seize one process only so that
// it dies with the warden.
//
// It never lets such a call run, never reads or writes a tracee's memory and never decides what is refused: the filter
// did. Caller: the warden. Privileges: CAP_SYS_PTRACE, since launch is not dumpable. Kernel: 5.3 (PTRACE_GET_SYSCALL_INFO).
//
// Concurrency: a tracee belongs to the OS thread that seized it, so every function here is called on one locked thread. That
// thread's end kills the tracees (PTRACE_O_EXITKILL), and so does the end of its process. A tracee can vanish between two
// calls because something killed it; ErrGone says so and is no failure.
package ptrace
