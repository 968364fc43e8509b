package notify

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

// ErrGone means that the caller was killed meanwhile, or never waited.
var ErrGone = errors.New("caller is gone")

// Listener is the descriptor by which a filter's calls are received.
type Listener struct{ fd int }

// New takes over a listener.
func New(fd int) Listener {
	// Caller and listener take turns, so the kernel need not look for another CPU to wake either on. Before Linux 6.6 it does.
	_ = setFlags(fd, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return Listener{fd}
}

// Close lets the kernel answer from now on.
func (l Listener) Close() error { return unix.Close(l.fd) }

// Call is one call, whose thread waits.
type Call struct {
	cbpf.Call
	ID  uint64
	TID int // of the thread, in the receiver's pid namespace
}

// Receive waits for the next call. ErrGone: its caller was killed before it could be read; io.EOF: no process has the filter
// any more. It waits in poll, since kernels such as 6.1 wait in the ioctl for ever once the last process is gone.
func (l Listener) Receive() (Call, error) {
	if err := l.await(); err != nil {
		return Call{}, err
	}
	for {
		n, err := receive(l.fd)
		switch err {
		case nil:
			call := Call{cbpf.Call{NR: uint32(n.data.nr), Arch: n.data.arch, Args: n.data.args}, n.id, int(n.pid)}
			return call, nil
		case unix.EINTR:
		case unix.ENOENT:
			return Call{}, ErrGone
		default:
			return Call{}, fmt.Errorf("ioctl(SECCOMP_IOCTL_NOTIF_RECV): %w", err)
		}
	}
}

// await returns once a call waits, or with io.EOF once none can come.
func (l Listener) await() error {
	fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("poll the filter's listener: %w", err)
		case fds[0].Revents&unix.POLLIN != 0:
			return nil
		case fds[0].Revents != 0:
			return io.EOF
		}
	}
}

// Waits reports whether the call still waits. What was read about its thread by number before was then read about it, and
// not about another that got the number.
func (l Listener) Waits(c Call) bool { return stillValid(l.fd, c.ID) == nil }

// Refuse makes the call return -errno.
func (l Listener) Refuse(c Call, errno unix.Errno) error {
	return gone("SEND", send(l.fd, &response{id: c.ID, err: -int32(errno)}))
}

// Give puts a copy of a descriptor into the caller's table and makes the call return its number there, both or neither.
func (l Listener) Give(c Call, fd int, closeOnExec bool) error {
	a := &addition{id: c.ID, flags: unix.SECCOMP_ADDFD_FLAG_SEND, source: uint32(fd)}
	if closeOnExec {
		a.newFlags = unix.O_CLOEXEC
	}
	return gone("ADDFD", add(l.fd, a))
}

func gone(what string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.ENOENT:
		return ErrGone
	}
	return fmt.Errorf("ioctl(SECCOMP_IOCTL_NOTIF_%s): %w", what, err)
}
