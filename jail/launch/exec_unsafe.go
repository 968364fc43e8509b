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

// maxFilter is the kernel's limit, BPF_MAXINSNS.
const maxFilter = 4096

// loadFilter installs the compiled program for this thread, the only one that survives execve.
func loadFilter(s *stage) error {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	n := len(s.Filter) / size
	if len(s.Filter)%size != 0 || n == 0 || n > maxFilter {
		return fmt.Errorf("a filter of %d bytes is no program", len(s.Filter))
	}
	program := make([]unix.SockFilter, n) // copied, since the message's bytes may lie at any address
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&program[0])), n*size), s.Filter)
	prog := unix.SockFprog{Len: uint16(n), Filter: &program[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return call("seccomp(SET_MODE_FILTER)", errno)
	}
	return nil
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
