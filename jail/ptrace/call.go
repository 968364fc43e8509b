package ptrace

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

// infoSize is struct ptrace_syscall_info with its seccomp member.
const infoSize = 88

// Refused reads the call of a tracee in a Seccomp stop, before it runs.
func Refused(pid int) (cbpf.Call, error) {
	var b [infoSize]byte
	n, err := syscallInfo(pid, b[:])
	if err != nil {
		return cbpf.Call{}, gone("GET_SYSCALL_INFO", err)
	}
	return parseInfo(b[:min(n, len(b))])
}

// parseInfo reads struct ptrace_syscall_info: u8 op, 3 bytes, u32 arch, u64 ip, u64 sp, then for op SECCOMP u64 nr,
// u64 args[6], u32 ret_data. The number is a sign-extended int. ret_data is not read: another filter than
// the warden's may have written it.
func parseInfo(b []byte) (cbpf.Call, error) {
	if len(b) < 84 || b[0] != unix.PTRACE_SYSCALL_INFO_SECCOMP {
		return cbpf.Call{}, fmt.Errorf("ptrace(GET_SYSCALL_INFO): %d bytes, not of a seccomp stop", len(b))
	}
	c := cbpf.Call{Arch: binary.NativeEndian.Uint32(b[4:]), NR: uint32(binary.NativeEndian.Uint64(b[24:]))}
	for i := range c.Args {
		c.Args[i] = binary.NativeEndian.Uint64(b[32+8*i:])
	}
	return c, nil
}
