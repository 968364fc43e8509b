package ptrace

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrGone means that the tracee died meanwhile. Its wait status is still to come.
var ErrGone = errors.New("tracee is gone")

// following are the options of every tracee. EXIT and EXEC events are left out: each would cost every process a stop.
const following = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACESYSGOOD |
	unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK

// Seize starts tracing a process of one thread that is about to call execve. That execve is reported as a stop Exec, after
// which FollowOnly must be called; nothing else of the process changes.
func Seize(pid int) error {
	if err := request(unix.PTRACE_SEIZE, pid, 0, following|unix.PTRACE_O_TRACEEXEC); err != nil {
		return fmt.Errorf("ptrace(SEIZE, %d): %w", pid, err)
	}
	return nil
}

// SeizeForLife ties a process to this thread's life: the kernel kills it when the thread ends. Nothing that it starts is
// traced, and of itself only its signals are reported.
func SeizeForLife(pid int) error {
	if err := request(unix.PTRACE_SEIZE, pid, 0, unix.PTRACE_O_EXITKILL); err != nil {
		return fmt.Errorf("ptrace(SEIZE, %d): %w", pid, err)
	}
	return nil
}

// FollowOnly ends the reports of execve. What the tracee starts from now on inherits that.
func FollowOnly(pid int) error {
	return gone("SETOPTIONS", request(unix.PTRACE_SETOPTIONS, pid, 0, following))
}

// Continue lets a stopped tracee run; sig, if not 0, is delivered. In a stop for that very signal the kernel delivers it with
// its original sender and value.
func Continue(pid int, sig unix.Signal) error {
	return gone("CONT", request(unix.PTRACE_CONT, pid, 0, uintptr(sig)))
}

// Listen leaves a tracee in its group stop until SIGCONT: continuing it would undo a stop that the job itself asked for.
func Listen(pid int) error { return gone("LISTEN", request(unix.PTRACE_LISTEN, pid, 0, 0)) }

func gone(what string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.ESRCH:
		return ErrGone
	}
	return fmt.Errorf("ptrace(%s): %w", what, err)
}
