package warden

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/ptrace"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

func now() int64 { return spool.MonotonicNow() }

// follow waits for init and, in a plan that traces, for every process of the job, until none is left. Where init alone is
// seized, its signals are reported and passed on. All requests to tracees are made here, between two waits, on the thread that seized the program. It keeps no record of who is who: after
// an execve in a process of many threads the numbers change owners without a word.
func (r *run) follow() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil: // ECHILD
			return
		case pid == r.pid && (status.Exited() || status.Signaled()):
			r.post(initEnd{})
		default:
			if err := r.serve(pid, status); err != nil && !errors.Is(err, ptrace.ErrGone) {
				// A tracee in an unknown state must not run on.
				_ = unix.Kill(pid, unix.SIGKILL)
				r.post(fault{"trace", err})
			}
		}
	}
}

// serve answers one report of a tracee.
func (r *run) serve(pid int, status unix.WaitStatus) error {
	kind, sig := ptrace.Report(status)
	switch kind {
	case ptrace.Ended:
		if pid == r.program {
			r.post(programEnd{status, now()})
		}
		return nil
	case ptrace.Signalled:
		return ptrace.Continue(pid, sig)
	case ptrace.Grouped:
		return ptrace.Listen(pid)
	case ptrace.Seccomp:
		return r.refuse(pid)
	case ptrace.Exec:
		if err := ptrace.FollowOnly(pid); err != nil {
			return err
		}
		at := now()
		if err := ptrace.Continue(pid, 0); err != nil {
			return err
		}
		r.post(executed{at})
		return nil
	}
	return ptrace.Continue(pid, 0)
}

// refuse answers a call that a filter handed over. Whichever filter it was, the call does not run.
func (r *run) refuse(pid int) error {
	call, err := ptrace.Refused(pid)
	if err != nil {
		return err
	}
	kind, errno, err := r.rule(&call)
	if err != nil {
		r.post(fault{"trace", err})
	}
	if err := ptrace.Refuse(pid, errno); err != nil {
		return err
	}
	if kind == refused {
		r.note(pid, &call, errno, func() bool { return true }) // a stopped thread keeps its number until it is waited for
	}
	return ptrace.Continue(pid, 0)
}

// note records a refusal.
func (r *run) note(tid int, call *cbpf.Call, errno unix.Errno, waits func() bool) {
	if err := r.denials.add(tid, call, errno, waits); err != nil {
		r.post(fault{"spool", fmt.Errorf("record refusal: %w", err)})
	}
}
