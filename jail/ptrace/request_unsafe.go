package ptrace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// request is ptrace(2) with integers alone.
func request(what uintptr, pid int, addr, data uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, what, uintptr(pid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// syscallInfo fills b and returns how many bytes the kernel has to say.
func syscallInfo(pid int, b []byte) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(pid),
		uintptr(len(b)), uintptr(unsafe.Pointer(&b[0])), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
