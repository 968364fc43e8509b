// Package notify is the listener's side of seccomp user notification (seccomp_unotify(2)): it receives the calls that a filter
// handed over, each of whose threads waits, and answers them with an error or with a descriptor.
//
// It never lets a call run (SECCOMP_USER_NOTIF_FLAG_CONTINUE is not used: the arguments in memory would be the caller's to
// change after they were judged), never reads a caller's memory and never decides what is refused. Caller: the warden.
// Privileges: none beyond the listener. Kernel: 5.19 (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, by which a received call waits
// through signals, so that no call is asked about twice).
//
// Concurrency: one goroutine receives. A caller can be killed at any moment; ErrGone says so and is no failure. When the
// listener is closed, calls that wait and calls that come are answered ENOSYS by the kernel.
package notify
