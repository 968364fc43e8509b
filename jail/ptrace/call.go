package ptrace

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Call is a system call that the filter handed to the tracer, before it ran.
type Call struct {
	Arch uint32 // AUDIT_ARCH_*
	NR   uint64
	Args [6]uint64
	Data uint32 // SECCOMP_RET_DATA
}

// infoSize is struct ptrace_syscall_info with its seccomp member.
const infoSize = 88

// Refused reads the call of a tracee in a Seccomp stop.
func Refused(pid int) (Call, error) {
	var b [infoSize]byte
	n, err := syscallInfo(pid, b[:])
	if err != nil {
		return Call{}, gone("GET_SYSCALL_INFO", err)
	}
	return parseInfo(b[:min(n, len(b))])
}

// parseInfo reads struct ptrace_syscall_info: u8 op, 3 bytes, u32 arch, u64 ip, u64 sp, then for op SECCOMP u64 nr,
// u64 args[6], u32 ret_data.
func parseInfo(b []byte) (Call, error) {
	if len(b) < 84 || b[0] != unix.PTRACE_SYSCALL_INFO_SECCOMP {
		return Call{}, fmt.Errorf("ptrace(GET_SYSCALL_INFO): %d bytes, not of a seccomp stop", len(b))
	}
	c := Call{Arch: binary.NativeEndian.Uint32(b[4:]), NR: binary.NativeEndian.Uint64(b[24:])}
	for i := range c.Args {
		c.Args[i] = binary.NativeEndian.Uint64(b[32+8*i:])
	}
	c.Data = binary.NativeEndian.Uint32(b[80:])
	return c, nil
}
