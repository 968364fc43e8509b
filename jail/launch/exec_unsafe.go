package launch

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// poise tells the warden that only the filter and execve are left, and waits until it traces this thread.
func poise(s *stage) error {
	if err := s.conn.Send(&wire.Poised{Landlock: s.landlock, CoreSched: s.coreSched}); err != nil {
		return err
	}
	_, _, err := wire.Expect[*wire.Go](s.conn, 0)
	return err
}

// last are the arguments of the last calls.
type last struct {
	filter     *unix.SockFprog // nil: none
	flags      uintptr         // of the filter
	handover   *unix.Msghdr    // of the filter's listener; nil: it has none
	place      []byte          // of the listener's number in it
	socket     int
	path       *byte
	argv, envv []*byte
}

func (s *stage) layOut() (err error) {
	if s.last.path, err = unix.BytePtrFromString(s.program); err != nil {
		return err
	}
	if s.last.argv, err = pointers(s.Command); err != nil {
		return err
	}
	s.last.envv, err = pointers(s.Env)
	return err
}

// pointers is a list of strings closed by nil.
func pointers(list []string) ([]*byte, error) {
	out := make([]*byte, len(list)+1)
	for i, s := range list {
		p, err := unix.BytePtrFromString(s)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

// execute puts the filter in force and becomes the program.
func execute(s *stage) error {
	switch failed, errno := become(&s.last); failed {
	case unix.SYS_SECCOMP:
		return call(fmt.Sprintf("seccomp(SET_MODE_FILTER, %#x)", s.last.flags), errno)
	case unix.SYS_SENDMSG:
		return call("sendmsg(listener)", errno)
	default:
		return explain(s.program, errno)
	}
}

// become loads the filter for this thread, the only one that survives execve, hands over its listener, which the kernel closes
// here at execve, and executes the program. It returns which call failed.
//
// The policy need not allow any call but these, so that the Go runtime must make none in between: it would be refused, say, a
// futex, and give up. The runtime takes over where a function with a stack check begins, hence nosplit, and by signals, which init
// switched off for this process. Raw calls all the more, since syscall.Exec would put back the open-files limit that this process
// started with.
//
//go:nosplit
func become(l *last) (failed uintptr, errno unix.Errno) {
	var listener uintptr
	if l.filter != nil {
		listener, _, errno = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, l.flags, uintptr(unsafe.Pointer(l.filter)))
		if errno != 0 {
			return unix.SYS_SECCOMP, errno
		}
	}
	if l.handover != nil {
		*(*int32)(unsafe.Pointer(&l.place[0])) = int32(listener)
		_, _, errno = unix.RawSyscall(unix.SYS_SENDMSG, uintptr(l.socket), uintptr(unsafe.Pointer(l.handover)), unix.MSG_NOSIGNAL)
		if errno != 0 {
			return unix.SYS_SENDMSG, errno
		}
	}
	_, _, errno = unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(l.path)),
		uintptr(unsafe.Pointer(&l.argv[0])), uintptr(unsafe.Pointer(&l.envv[0])))
	return unix.SYS_EXECVE, errno
}
