package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// wardenProcess is one warden as the agent sees it.
type wardenProcess struct {
	pid    int
	conn   *wire.Conn
	group  cgroup.Group
	stderr *os.File // memory: what the roles printed before they crashed, if they did

	reaped    func() error // once; every call has its result
	lastWords string       // valid once reaped
}

// start runs the warden role in a session of its own, away from signals to the agent's. Nothing of the agent's environment
// or descriptors goes along.
func (l *Launcher) start(group cgroup.Group) (*wardenProcess, error) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := agentEnd(ours)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	w := &wardenProcess{conn: conn, group: group}
	if err := w.spawn(l.binary, theirs); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l.wardens.Add(1)
	w.reaped = sync.OnceValue(func() error {
		defer l.wardens.Done()
		return w.bury()
	})
	return w, nil
}

// agentEnd makes a socket wait in the runtime's poller instead of on a thread.
func agentEnd(ours *os.File) (*wire.Conn, error) {
	fd, err := unix.FcntlInt(ours.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("fcntl(F_DUPFD_CLOEXEC): %w", err)
	}
	if err := errors.Join(unix.SetNonblock(fd, true), ours.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("fcntl(O_NONBLOCK): %w", err), unix.Close(fd))
	}
	return wire.NewConn(os.NewFile(uintptr(fd), "warden"))
}

func (w *wardenProcess) spawn(binary, control *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer null.Close()
	fd, err := unix.MemfdCreate("tolbooth-warden-stderr", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	w.stderr = os.NewFile(uintptr(fd), "stderr")
	path := "/proc/self/fd/" + strconv.Itoa(int(binary.Fd()))
	w.pid, err = syscall.ForkExec(path, []string{"tolbooth-jail", "warden"}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=2", "GOTRACEBACK=none"},
		Files: []uintptr{null.Fd(), null.Fd(), w.stderr.Fd(), control.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return errors.Join(fmt.Errorf("start warden: %w", err), w.stderr.Close())
	}
	return nil
}

// reap waits for the warden and everything in its jail; an error says what is left.
//
// Preconditions: the warden is ending, or has been killed.
func (w *wardenProcess) reap() error { return w.reaped() }

// bury kills what is left of the jail and waits for the warden, and for its init if that became the agent's child. Both are
// in the warden's process group, and no other child of the agent is.
func (w *wardenProcess) bury() error {
	err := w.group.Kill()
	for {
		if _, err := unix.Wait4(-w.pid, nil, unix.WALL, nil); err != nil && err != unix.EINTR {
			break // ECHILD: all are reaped
		}
	}
	w.lastWords = w.printed()
	return errors.Join(err, w.group.WaitEmpty(10*time.Second), w.conn.Close(), w.stderr.Close())
}

// discard ends a warden and everything in its jail.
func (w *wardenProcess) discard() error {
	if err := unix.Kill(w.pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill warden: %w", err)
	}
	return w.reap()
}

// printed is what the warden, init or launch said when it crashed.
func (w *wardenProcess) printed() string {
	var b [1024]byte
	n, _ := w.stderr.ReadAt(b[:], 0) // fewer bytes come with io.EOF
	return strings.TrimSpace(strings.ToValidUTF8(string(b[:n]), "?"))
}

// epitaph words a death that nobody ordered.
//
// Preconditions: reaped.
func (w *wardenProcess) epitaph(err error) string {
	text := "the warden died"
	if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		text = "the warden was ended: " + err.Error()
	}
	return w.appendLastWords(text)
}

func (w *wardenProcess) appendLastWords(text string) string {
	if w.lastWords == "" {
		return text
	}
	return text + ": " + w.lastWords
}
