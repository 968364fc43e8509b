package probe

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Values of linux/seccomp.h that x/sys does not have.
const (
	seccompSetModeFilter  = 1
	seccompGetActionAvail = 2
	seccompRetAllow       = 0x7fff0000
	seccompRetTrace       = 0x7ff00000
	seccompRetErrno       = 0x00050000
)

// seccompLayer asks the kernel for the two answers that a jail's filter gives, and loads a filter that allows everything
// into a thread that ends with the probe.
func seccompLayer(host settings) Layer {
	for _, action := range []struct {
		name  string
		value uint32
	}{{"SECCOMP_RET_TRACE", seccompRetTrace}, {"SECCOMP_RET_ERRNO", seccompRetErrno}} {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, seccompGetActionAvail, 0, uintptr(unsafe.Pointer(&action.value)))
		if errno != 0 {
			return missing("seccomp", fmt.Sprintf("seccomp (GET_ACTION_AVAIL %s): %v", action.name, errno), seccompFix(errno, host))
		}
	}
	if err := inThread(loadFilter); err != nil {
		return missing("seccomp", err.Error(), seccompFix(err, host))
	}
	return ok("seccomp", "filter with RET_TRACE")
}

// seccompFix tells a kernel without filters from one that is kept from this process.
func seccompFix(err error, host settings) string {
	actions := host.sysctl("kernel.seccomp.actions_avail")
	switch outside := host.outside(); {
	case actions == "":
		return "use a kernel with CONFIG_SECCOMP_FILTER: this one has no sysctl kernel.seccomp.actions_avail"
	case errors.Is(err, unix.EOPNOTSUPP):
		return "use kernel 4.14 or newer: sysctl kernel.seccomp.actions_avail lists " + actions
	case outside != "":
		return "the kernel has seccomp; what confines this process must allow seccomp(2): " + outside
	}
	return "the kernel has seccomp, with the actions " + actions + "; something between it and this process refuses seccomp(2)"
}

func loadFilter() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl (PR_SET_NO_NEW_PRIVS): %w", err)
	}
	filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: seccompRetAllow}}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, seccompSetModeFilter, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("seccomp (SET_MODE_FILTER): %w", errno)
	}
	return nil
}
