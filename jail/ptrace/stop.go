package ptrace

import "golang.org/x/sys/unix"

// Kind is why wait4 reported a tracee.
type Kind int

// The kinds of report.
const (
	Ended     Kind = iota // it exited or was killed
	Signalled             // a signal is about to be delivered; Continue with it
	Grouped               // it stopped with its group; Listen
	Seccomp               // the filter handed over a call; Refused, Refuse, Continue
	Exec                  // the execve after Seize
	Other                 // a new child's first stop, the parent's fork event, the end of a group stop: Continue
)

// Report reads a wait status.
func Report(status unix.WaitStatus) (Kind, unix.Signal) {
	if status.Exited() || status.Signaled() {
		return Ended, 0
	}
	sig := status.StopSignal()
	switch event := int(status) >> 16; event {
	case 0:
		if sig == unix.SIGTRAP|0x80 { // a syscall stop; nobody asks for one
			return Other, 0
		}
		return Signalled, sig
	case unix.PTRACE_EVENT_SECCOMP:
		return Seccomp, 0
	case unix.PTRACE_EVENT_EXEC:
		return Exec, 0
	case unix.PTRACE_EVENT_STOP:
		switch sig {
		case unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
			return Grouped, sig
		}
	}
	return Other, 0
}
