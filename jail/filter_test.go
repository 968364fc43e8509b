package jail

import (
	"encoding/binary"
	"iter"
	"strings"

	"golang.org/x/sys/unix"
)

func stringsLines(b []byte) iter.Seq[string] { return strings.Lines(string(b)) }

// refusedCalls are what testFilter hands to the tracer, with the errno to answer.
var refusedCalls = map[uint32]uint32{
	unix.SYS_PTRACE:         uint32(unix.EPERM),
	unix.SYS_KEYCTL:         uint32(unix.EPERM),
	unix.SYS_IO_URING_SETUP: uint32(unix.ENOSYS),
	unix.SYS_SWAPON:         0, // no errno: the warden must refuse all the same
	unix.SYS_UNSHARE:        uint32(unix.EPERM),
}

// testFilter is a deny-list by hand: enough to test the warden, not to confine anything. Any other ABI is refused.
func testFilter() []byte {
	answers := map[uint32]uint32{}
	for nr, errno := range refusedCalls {
		answers[nr] = unix.SECCOMP_RET_TRACE | errno
	}
	return filterOf(answers, unix.SECCOMP_RET_ALLOW)
}

// filterOf gives the calls of the machine's own ABI their answers, and those that are not listed the last.
func filterOf(answers map[uint32]uint32, others uint32) []byte {
	var prog []byte
	op := func(code uint16, jt, jf uint8, k uint32) {
		prog = append(binary.NativeEndian.AppendUint16(prog, code), jt, jf)
		prog = binary.NativeEndian.AppendUint32(prog, k)
	}
	const load, jumpEq, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	op(load, 0, 0, 4) // seccomp_data.arch
	op(jumpEq, 1, 0, nativeAuditArch)
	op(ret, 0, 0, unix.SECCOMP_RET_TRACE|uint32(unix.ENOSYS))
	op(load, 0, 0, 0) // seccomp_data.nr
	for nr, answer := range answers {
		op(jumpEq, 0, 1, nr)
		op(ret, 0, 0, answer)
	}
	op(ret, 0, 0, others)
	return prog
}
