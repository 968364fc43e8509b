package warden

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

// tellingArgs are the arguments that tell one use of a call from another, where it has such. All others are addresses,
// sizes and numbers that differ from call to call.
var tellingArgs = map[uint32][]int{
	unix.SYS_SOCKET:             {0, 1, 2},
	unix.SYS_SOCKETPAIR:         {0, 1, 2},
	unix.SYS_SETSOCKOPT:         {1, 2},
	unix.SYS_CLONE:              {0},
	unix.SYS_UNSHARE:            {0},
	unix.SYS_SETNS:              {1},
	unix.SYS_PRCTL:              {0},
	unix.SYS_IOCTL:              {1},
	unix.SYS_FCNTL:              {1},
	unix.SYS_PERSONALITY:        {0},
	unix.SYS_PTRACE:             {0},
	unix.SYS_KEYCTL:             {0},
	unix.SYS_SECCOMP:            {0, 1},
	unix.SYS_BPF:                {0},
	unix.SYS_MOUNT:              {3},
	unix.SYS_UMOUNT2:            {1},
	unix.SYS_SCHED_SETSCHEDULER: {1},
	unix.SYS_PRLIMIT64:          {1},
	unix.SYS_MKNODAT:            {2, 3},
}

// telling keeps those arguments. The table is for the machine's own calls; other numbers mean other calls elsewhere.
func telling(call *cbpf.Call) (args [6]uint64) {
	if call.Arch != cbpf.Native {
		return args
	}
	for _, i := range tellingArgs[call.NR] {
		args[i] = call.Args[i] & math.MaxUint32 // the kernel reads an int
	}
	return args
}
