package warden

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// verdict is what supervise knows so far.
type verdict struct {
	*run
	startedNS    int64 // 0: execve has not happened
	launchClosed bool
	reached      wire.Cause  // a limit, when it is not known yet whether the program runs
	end          *programEnd // the main process ended
	cancelled    wire.Cause  // TERM was sent; how the run ends now
	wall, grace  <-chan time.Time
	cpu          *cpuClock
}

// supervise reads events until the run is over, and says how it ended. The first cause wins.
func (r *run) supervise() wire.Exit {
	v := &verdict{run: r, cpu: newCPUClock(r.group, &r.own, time.Duration(r.start.CPUNS))}
	for {
		var exit wire.Exit
		var over bool
		select {
		case <-v.wall:
			exit, over = v.limit(wire.CauseWall), true
		case <-v.grace:
			exit, over = v.limit(v.cancelled), true
		case <-v.cpu.C():
			exit, over = v.checkCPU()
		case event := <-r.events:
			exit, over = v.judge(event)
		}
		if over {
			close(r.over)
			return exit
		}
	}
}

func (v *verdict) judge(event any) (wire.Exit, bool) {
	switch e := event.(type) {
	case executed:
		if exit, over := v.started(e.atNS); over {
			return exit, true
		}
		return v.settled()
	case launchClosed:
		if e.failed != nil {
			return startFailed(e.failed), true
		}
		v.launchClosed = true
		if !v.plan.Trace && v.startedNS == 0 {
			if exit, over := v.started(now()); over {
				return exit, true
			}
		}
		if exit, over := v.settled(); over {
			return exit, true
		}
		return v.concluded()
	case programEnd:
		v.end = &e
		return v.concluded()
	case limitHit:
		// A program that prints at once may be ahead of the event that says it was executed. Its socket closed before.
		if v.startedNS == 0 && hungUp(v.launch.FD()) {
			v.reached = e.cause
			return wire.Exit{}, false
		}
		return v.limit(e.cause), true
	case initEnd:
		return v.initEnded(), true
	case fault:
		return v.lost(e.step, e.err), true
	case *wire.Signal:
		if err := v.signal(unix.Signal(e.Number)); err != nil {
			return v.lost("signal", err), true
		}
	case *wire.Cancel:
		return v.cancel(e)
	}
	return wire.Exit{}, false
}

// started sets the clocks going: they run from the program's first instruction, and nothing in the jail can stop them.
func (v *verdict) started(atNS int64) (wire.Exit, bool) {
	v.startedNS = atNS
	if v.start.WallNS > 0 {
		v.wall = time.After(time.Duration(v.start.WallNS))
	}
	_ = v.control.Send(&wire.Started{StartUS: (atNS - v.start.SentNS) / 1000}) // a dead agent needs no answer
	if err := v.cpu.start(); err != nil {
		return v.lost("cgroup", err), true
	}
	return wire.Exit{}, false
}

// settled ends a run whose limit was reached before it was known to have started.
func (v *verdict) settled() (wire.Exit, bool) {
	if v.reached == "" || v.startedNS == 0 {
		return wire.Exit{}, false
	}
	return v.limit(v.reached), true
}

// concluded is reached when the program ended or launch's socket closed. Only both together tell whether it ever ran.
func (v *verdict) concluded() (wire.Exit, bool) {
	if v.end == nil || v.startedNS == 0 && !v.launchClosed {
		return wire.Exit{}, false
	}
	exit := v.exit(wire.CauseExit)
	status := v.end.status
	exit.Code = max(status.ExitStatus(), 0)
	if status.Signaled() {
		exit.Cause, exit.Signal = wire.CauseSignal, int(status.Signal())
	}
	if v.startedNS == 0 && v.reached != "" {
		return v.limit(v.reached), true
	}
	if v.startedNS == 0 {
		text := fmt.Sprintf("launch died before execve: exit code %d, signal %d", exit.Code, exit.Signal)
		return startFailed(wire.Fail("launch", errors.New(text))), true
	}
	if v.cancelled != "" {
		exit.Cause = v.cancelled
		return exit, true
	}
	return v.orLimit(exit), true
}

// orLimit looks whether a limit was reached before the program ended: the kernel's notification may still be under way.
func (v *verdict) orLimit(exit wire.Exit) wire.Exit {
	usage, err := v.group.Usage()
	switch {
	case err != nil:
		return v.lost("cgroup", err)
	case usage.OOMKills > v.before.OOMKills:
		exit.Cause = wire.CauseMemory
	case usage.PidsRefused > v.before.PidsRefused:
		exit.Cause = wire.CausePids
	case exit.Signal == int(unix.SIGKILL) && hungUp(v.init.FD()):
		return v.lost("init", errors.New("init was killed"))
	}
	exit.Orphans, err = v.orphans()
	if err != nil {
		return v.lost("cgroup", err)
	}
	return exit
}

// initEnded tells why init, which does not end by itself, was killed. When memory is used up the kernel kills the whole jail with it,
// and the notification of that may still be under way.
func (v *verdict) initEnded() wire.Exit {
	usage, err := v.group.Usage()
	switch {
	case err != nil:
		return v.lost("cgroup", err)
	case usage.OOMKills > v.before.OOMKills:
		return v.limit(wire.CauseMemory)
	}
	return v.lost("init", errors.New("init was killed"))
}

// orphans counts what is alive in the group beside init. A zombie is not listed, whoever has yet to wait for it.
func (v *verdict) orphans() (n int64, err error) {
	pids, err := v.group.Processes()
	for _, pid := range pids {
		if pid != v.pid && pid != v.program {
			n++
		}
	}
	return n, err
}

// hungUp reports whether the other end of a socket is closed. An init that dies closes it before the kernel kills the rest
// of the jail.
func hungUp(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) != 0
}

func (v *verdict) cancel(m *wire.Cancel) (wire.Exit, bool) {
	if m.GraceNS <= 0 {
		return v.limit(m.Cause), true
	}
	if v.cancelled == "" {
		v.cancelled = m.Cause
		v.grace = time.After(time.Duration(m.GraceNS))
		if err := v.signal(unix.SIGTERM); err != nil {
			return v.lost("signal", err), true
		}
	}
	return wire.Exit{}, false
}

// signal sends a signal to the program; one that has ended by itself is no error. A warden that may not signal its own jail
// has no hold on it.
func (v *verdict) signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(v.pidfd, sig, nil, 0)
	if err == nil || err == unix.ESRCH {
		return nil
	}
	return fmt.Errorf("pidfd_send_signal(%d): %w", int(sig), err)
}

func (v *verdict) checkCPU() (wire.Exit, bool) {
	over, err := v.cpu.over()
	if err != nil {
		return v.lost("cgroup", err), true
	}
	return v.limit(wire.CauseCPU), over
}

// limit is the end of a run that is now killed for a cause.
func (v *verdict) limit(cause wire.Cause) wire.Exit {
	exit := v.exit(cause)
	exit.Signal = int(unix.SIGKILL)
	return exit
}

func (v *verdict) lost(step string, err error) wire.Exit {
	exit := v.limit(wire.CauseLost)
	exit.Step, exit.Error = step, err.Error()
	return exit
}

func (v *verdict) exit(cause wire.Cause) wire.Exit {
	exit := wire.Exit{Cause: cause}
	if v.startedNS != 0 {
		exit.StartUS = (v.startedNS - v.start.SentNS) / 1000
		exit.RunUS = (now() - v.startedNS) / 1000
	}
	if v.startedNS != 0 && v.end != nil {
		exit.RunUS = max(0, v.end.atNS-v.startedNS) / 1000 // without a tracer a short run may be over before execve is seen
	}
	return exit
}
