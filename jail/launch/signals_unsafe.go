package launch

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelSigaction is struct sigaction of rt_sigaction(2), with room for either layout: the handler comes first, and zeros
// in the rest are its defaults.
type kernelSigaction struct {
	handler uintptr
	rest    [3]uint64
}

const (
	ignored    = 1 // SIG_IGN
	lastSignal = 64
)

// resetSignals undoes what the agent's parents may have set: an ignored signal and a blocked one both survive execve.
// Handlers do not.
func resetSignals(*stage) error {
	for sig := uintptr(1); sig <= lastSignal; sig++ {
		var now, standard kernelSigaction
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0); errno != 0 {
			return call("rt_sigaction", errno)
		}
		if now.handler != ignored {
			continue
		}
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&standard)), 0, 8, 0, 0); errno != 0 {
			return call("rt_sigaction", errno)
		}
	}
	return call("rt_sigprocmask", unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil))
}
