package ptrace

import "golang.org/x/sys/unix"

// Refuse makes the call of a tracee in a Seccomp stop return -errno without running it. Number -1 is what the kernel
// skips on. The same registers serve a caller in the i386 ABI.
func Refuse(pid int, errno unix.Errno) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return gone("GETREGS", err)
	}
	regs.Orig_rax = ^uint64(0)
	regs.Rax = uint64(-int64(errno))
	return gone("SETREGS", unix.PtraceSetRegs(pid, &regs))
}
