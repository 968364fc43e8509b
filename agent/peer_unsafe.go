package agent

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerGroups reads the supplementary groups of a unix socket's other end (SO_PEERGROUPS, since kernel 4.13): a worker's pod
// is let in by such a group. x/sys has no wrapper.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errors.Is(errno, unix.ERANGE) && len(groups) < 65536: // NGROUPS_MAX
			groups = make([]uint32, 65536)
		default:
			return nil, errno
		}
	}
}
