// Package launch is the last stage before the user's program: it gives up everything the program must not have and then
// becomes it. One process, one straight list of named steps (see steps.go); their order is the security.
//
// It owns its own process only, and never goes on after a failed step: it tells the warden which one and why, and exits.
// Caller: the role `launch` of tolbooth-jail, started by init and waiting for its Exec message from then on. Descriptor 3
// is its socket to the warden; it closes at execve, which is how the warden learns of it.
//
// Privileges: those of the jail's uid 0 in its own user namespace. Kernel: 5.15; Landlock as far as the kernel has it.
// Concurrency: everything happens on the main thread, to which main's init has locked the main goroutine: ids,
// capabilities, Landlock and the filter belong to a thread, and execve ends the others.
//
// What it holds for every program, whatever the mode: no capability in any set and none to be had, no_new_privs, one user
// and group, a session and a keyring of its own, no signal ignored or blocked, no priority over others, no core dump, the
// limits of usual (see limits.go). Affinity is advice.
package launch
