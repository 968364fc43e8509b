//go:build arm64

package ptrace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Refuse makes the call of a tracee in a Seccomp stop return -errno without running it. The number is a register set of
// its own on arm64; -1 is what the kernel skips on, and it then returns what is in x0.
func Refuse(pid int, errno unix.Errno) error {
	none := int32(-1)
	err := setRegset(pid, unix.NT_ARM_SYSTEM_CALL, unsafe.Pointer(&none), unsafe.Sizeof(none))
	if err != nil {
		return gone("SETREGSET(NT_ARM_SYSTEM_CALL)", err)
	}
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return gone("GETREGSET", err)
	}
	regs.Regs[0] = uint64(-int64(errno))
	return gone("SETREGSET", unix.PtraceSetRegs(pid, &regs))
}

func setRegset(pid int, set uintptr, p unsafe.Pointer, size uintptr) error {
	iov := unix.Iovec{Base: (*byte)(p), Len: uint64(size)}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SETREGSET, uintptr(pid), set, uintptr(unsafe.Pointer(&iov)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
