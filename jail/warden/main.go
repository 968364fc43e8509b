package warden

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// Control is the descriptor of the warden's socket to the agent.
const Control = 3

// warden is a jail that was prepared.
type warden struct {
	control *wire.Conn
	plan    wire.Plan
	group   cgroup.Group
	uidBase uint32
	pid     int        // of init
	init    *wire.Conn // to init
	launch  *wire.Conn // to launch
	before  cgroup.Usage
}

// Main is the role warden.
//
// Preconditions: the calling goroutine is locked to the main thread.
func Main() int {
	// What the agent's own parents left open must not reach the jail.
	if err := unix.CloseRange(Control, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 2
	}
	control, err := wire.NewConn(os.NewFile(Control, "control"))
	if err != nil {
		return 2
	}
	w := &warden{control: control}
	if err := w.prepare(); err != nil {
		return w.giveUp(err)
	}
	if control.Send(&wire.Ready{Init: w.pid}) != nil {
		return w.giveUp(nil)
	}
	if w.before, err = w.group.Usage(); err != nil { // while nobody waits
		return w.giveUp(wire.Fail("cgroup", err))
	}
	if err := w.awaitStart(); err != nil {
		return w.giveUp(err)
	}
	start, p, err := wire.Expect[*wire.Start](control, wire.MaxFiles)
	if err != nil {
		return w.giveUp(nil) // discarded, or the agent died
	}
	return w.run(start, p.Files)
}

// awaitStart waits until the agent has something to say; an init that dies meanwhile is an error.
func (w *warden) awaitStart() error {
	fds := []unix.PollFd{{Fd: Control, Events: unix.POLLIN}, {Fd: int32(w.init.FD()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("poll: %w", err)
		case fds[0].Revents != 0:
			return nil
		default:
			_, _, err := wire.Expect[*wire.Hello](w.init, 0) // a Failed, or its end: Hello came before
			return initError(err)
		}
	}
}

// giveUp ends a jail that ran nothing, and says why if anything is wrong.
func (w *warden) giveUp(err error) int {
	if w.pid != 0 {
		_ = unix.Kill(w.pid, unix.SIGKILL) // ESRCH when it is dead already; the jail dies with it
		w.reapAll()
	}
	if err == nil {
		return 0
	}
	var failed *wire.Failed
	if !errors.As(err, &failed) {
		failed = wire.Fail("warden", err)
	}
	_ = w.control.Send(failed) // the agent is gone, or reads it
	return 1
}

func (w *warden) reapAll() {
	for {
		if _, err := unix.Wait4(-1, nil, unix.WALL, nil); err != nil && err != unix.EINTR {
			return // ECHILD
		}
	}
}
