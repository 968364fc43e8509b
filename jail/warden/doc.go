// Package warden is the process in charge of one jail, outside it: it starts init in the job's cgroup and namespaces, hands
// the job over, traces the program, records its output and every refused call in the spool, keeps the clocks, ends the run
// with the first cause that comes up, kills whatever is left, and reports.
//
// It never allows anything: a call that reaches it has been refused by the filter, and it only supplies the error number. It
// reads no memory of the jail. What it is told comes from the agent, over descriptor 3, from init, and from launch before the
// program runs; the program itself has no way to talk to it.
//
// Caller: the role `warden` of tolbooth-jail, started by package jail. Privileges: root, with CAP_SYS_ADMIN, CAP_SYS_PTRACE (not
// in a plan without a tracer), CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN, CAP_DAC_OVERRIDE. Kernel: 5.15.
//
// Lifetime: one jail. When the agent dies while a job runs, the warden finishes it: everything is in the spool. When the
// warden dies, the kernel kills the tracees, and init by its parent-death signal.
//
// Concurrency: the main goroutine is locked to the main thread, which clones init (its parent-death signal and its
// namespaces are bound to that thread), seizes the program and then waits for children until there are none. Everything that
// happens is an event; one goroutine (supervise) reads the events and alone decides how the run ends.
package warden
