package warden

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/notify"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// takeListener receives the filter's listener. Without it no refused call would ever be answered, and launch, which cannot
// have got to its execve, is killed as a failed start.
func (r *run) takeListener() *wire.Failed {
	_, p, err := wire.Expect[*wire.Listener](r.launch, 1)
	var failed *wire.Failed
	switch {
	case errors.As(err, &failed):
		return failed
	case err != nil:
		return wire.Fail("listener", fmt.Errorf("launch handed over no listener: %w", err))
	case len(p.Files) != 1:
		return wire.Fail("listener", errors.New("launch handed over no listener"))
	}
	go r.listen(notify.New(p.Files[0]))
	return nil
}

// listen answers the calls that the filter hands over, one after the other, until no process has the filter any more.
// Callers wait meanwhile: a job that has many calls refused slows down itself.
func (r *run) listen(l notify.Listener) {
	defer l.Close()
	if r.start.RawSocket {
		if err := enterNetwork(); err != nil {
			r.post(fault{"listener", err})
			return
		}
	}
	for {
		call, err := l.Receive()
		if err == nil {
			err = r.answer(l, call)
		}
		switch {
		case err == nil, errors.Is(err, notify.ErrGone):
		case err == io.EOF:
			return
		default:
			r.post(fault{"listener", err}) // the run ends; the kernel answers for the closed listener
			return
		}
	}
}

// enterNetwork takes this goroutine's thread into the jail's network namespace, for good. Only the main thread, which /proc/self
// is about, joined it: the runtime's others were there before, or are copies of one that was, and a socket made on one of them
// would be the node's.
func enterNetwork() error {
	runtime.LockOSThread()
	fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the jail's network namespace: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("setns(CLONE_NEWNET): %w", err)
	}
	return nil
}

// answer records a refused call and only then answers it, so that the record is there when the caller acts on it.
func (r *run) answer(l notify.Listener, call notify.Call) error {
	kind, errno, err := r.rule(&call.Call)
	if err != nil {
		r.post(fault{"listener", err})
	}
	switch kind {
	case brokered:
		return r.broker(l, call)
	case refused:
		r.note(call.TID, &call.Call, errno, func() bool { return l.Waits(call) })
	}
	return l.Refuse(call, errno)
}

// broker makes a raw IP socket and hands it over. The socket belongs to the jail's network namespace, which this thread has
// joined, and to the program's user. Nothing that is asked of it later is judged by who made it, with one exception: the
// owner of a raw IGMP socket may set up multicast routing, so that protocol stays refused.
func (r *run) broker(l notify.Listener, call notify.Call) error {
	family, kind, protocol := int(int32(call.Args[0])), int(int32(call.Args[1])), int(int32(call.Args[2]))
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	if call.NR != unix.SYS_SOCKET || kind&^flags != unix.SOCK_RAW || family != unix.AF_INET && family != unix.AF_INET6 || protocol == unix.IPPROTO_IGMP {
		r.note(call.TID, &call.Call, unix.EPERM, func() bool { return l.Waits(call) })
		return l.Refuse(call, unix.EPERM)
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return l.Refuse(call, errnoOf(err))
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, int(r.uidBase+r.start.UID), int(r.uidBase+r.start.GID)); err != nil {
		r.post(fault{"listener", fmt.Errorf("fchown socket: %w", err)})
		return l.Refuse(call, unix.EPERM)
	}
	err = l.Give(call, fd, kind&unix.SOCK_CLOEXEC != 0)
	var errno unix.Errno
	if errors.As(err, &errno) { // its table is full
		return l.Refuse(call, errno)
	}
	return err
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EPERM
}
