// Package warden is the process in charge of one jail, outside it: it starts init in the job's cgroup and namespaces, hands
// the job over, answers the calls that its filter refuses, records them and the program's output in the spool, keeps the clocks,
// ends the run with the first cause that comes up, kills whatever is left, and reports.
//
// It allows nothing that the filter refuses. How it learns of refused calls is the plan's engine: notify (the filter's listener)
// or ptrace (every process is traced). With either it asks the filter once more, in an interpreter, what a call is answered,
// and takes no word for it that came with the call. One call it makes itself where the job may have that, socket(2) for a raw
// IP socket, from the registers alone, and hands the socket over. It reads no memory of the jail. What it is told comes from the
// agent, over descriptor 3, from init, and from launch before the program runs; the program itself has no way to talk to it.
//
// Caller: the role `warden` of tolbooth-jail, started by package jail. Privileges: root, with CAP_SYS_ADMIN, CAP_SYS_PTRACE (with
// the engine notify it is used if it is there), CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN, CAP_DAC_OVERRIDE, and CAP_NET_RAW over
// the jail's network namespace for raw sockets. Kernel: 5.15, with notify 5.19.
//
// Lifetime: one jail. When the agent dies while a job runs, the warden finishes it: everything is in the spool. When the
// warden dies, the kernel kills what it traces, every process of the job or init, and init by its parent-death signal; with
// init ends every process of its pid namespace.
//
// Concurrency: the main goroutine is locked to the main thread, which clones init (its parent-death signal and its
// namespaces are bound to that thread), seizes what is to be traced and then waits for children until there are none. One
// goroutine answers notifications. Everything that happens is an event; one goroutine (supervise) reads the events and alone
// decides how the run ends.
package warden
