package launch

import (
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

// vectors are execve's three arguments.
type vectors struct {
	path       *byte
	argv, envv []*byte
}

func (s *stage) layOut() (err error) {
	if s.vectors.path, err = unix.BytePtrFromString(s.program); err != nil {
		return err
	}
	if s.vectors.argv, err = pointers(s.Command); err != nil {
		return err
	}
	s.vectors.envv, err = pointers(s.Env)
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

// execute becomes the program. A raw call: syscall.Exec would put back the open-files limit that this process started with.
func execute(s *stage) error {
	v := &s.vectors
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(v.path)),
		uintptr(unsafe.Pointer(&v.argv[0])), uintptr(unsafe.Pointer(&v.envv[0])))
	return explain(s.program, errno)
}
