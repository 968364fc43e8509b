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
	ownNet  bool       // the jail has a network namespace of its own
	pid     int        // of init
	init    *wire.Conn // to init
	launch  *wire.Conn // to launch
	before  cgroup.Usage
	root    int                 // in a plan that chroots: launch goes into it by itself; else -1
	limits  <-chan cgroup.Event // what the kernel says of the group
	unwatch chan struct{}       // closed when nobody listens to limits any more
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
	w := &warden{control: control, root: -1, unwatch: make(chan struct{})}
	if err := w.prepare(); err != nil {
		return w.giveUp(err)
	}
	if control.Send(&wire.Ready{Init: w.pid}) != nil {
		return w.giveUp(nil)
	}
	if err := w.watch(); err != nil { // while nobody waits
		return w.giveUp(wire.Fail("cgroup", err))
	}
	if err := w.awaitAgent(); err != nil {
		return w.giveUp(err)
	}
	root, p, err := wire.Expect[*wire.Root](control, wire.MaxFiles)
	if err != nil {
		return w.giveUp(nil) // discarded, or the agent died
	}
	if err := w.build(root, p.Files); err != nil {
		return w.giveUp(err)
	}
	if err := w.awaitAgent(); err != nil {
		return w.giveUp(err)
	}
	start, p, err := wire.Expect[*wire.Start](control, wire.MaxFiles)
	if err != nil {
		return w.giveUp(nil)
	}
	return w.run(start, p.Files)
}

// watch notes what the group has used already and listens to what the kernel says of it.
func (w *warden) watch() (err error) {
	if w.before, err = w.group.Usage(); err != nil {
		return err
	}
	w.limits, err = w.group.Watch(w.unwatch)
	return err
}

// build has init make the root.
func (w *warden) build(m *wire.Root, files []int) error {
	defer func() { wire.CloseFiles(files) }()
	if err := w.init.Send(m, files...); err != nil {
		return wire.Fail("init", err)
	}
	if err := w.rooted(); err != nil {
		return err
	}
	if w.plan.Chroot {
		w.root, files = files[0], files[1:]
	}
	return w.control.Send(&wire.Rooted{})
}

// rooted waits for init's word that the root is as it was asked for.
func (w *warden) rooted() error {
	if _, _, err := wire.Expect[*wire.Rooted](w.init, 0); err != nil {
		return initError(err)
	}
	return nil
}

// awaitAgent waits until the agent has something to say; an init that dies meanwhile is an error.
func (w *warden) awaitAgent() error {
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
