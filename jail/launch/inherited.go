package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// timerSlack is the kernel's own default, in nanoseconds.
const timerSlack = 50_000

// resetScheduling takes away what an agent with a better place in the scheduler would pass on: a real-time policy, a negative
// nice value, a real-time I/O class. A worse place than usual stays, since the operator chose it for the agent's jobs too.
func resetScheduling(*stage) error {
	now, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return call("sched_getattr", err)
	}
	realTime := now.Policy == unix.SCHED_FIFO || now.Policy == unix.SCHED_RR
	if realTime || now.Nice < 0 {
		usual := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
		if err := unix.SchedSetAttr(0, &usual, 0); err != nil {
			return call("sched_setattr(SCHED_NORMAL, nice 0)", err)
		}
	}
	if err := resetIOClass(); err != nil {
		return err
	}
	return call("prctl(PR_SET_TIMERSLACK)", unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0))
}

// From linux/ioprio.h, which x/sys lacks.
const (
	ioprioWhoProcess = 1
	ioprioClassShift = 13
	ioprioClassRT    = 1
)

func resetIOClass() error {
	priority, _, errno := unix.RawSyscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, 0, 0)
	if errno == unix.ENOSYS || errno == 0 && priority>>ioprioClassShift != ioprioClassRT { // ENOSYS: a kernel without block devices
		return nil
	}
	if errno != 0 {
		return call("ioprio_get", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, 0); errno != 0 {
		return call("ioprio_set", errno)
	}
	return nil
}

// resetPersonality undoes setarch(8): fixed addresses, or another machine's name.
func resetPersonality(*stage) error {
	const ask = 0xffffffff
	now, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, ask, 0, 0)
	if errno != 0 {
		return call("personality", errno)
	}
	if now == 0 {
		return nil
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, 0, 0, 0); errno != 0 {
		return call("personality(0)", errno)
	}
	return nil
}

// stopMerging ends the search for pages that are equal to others', which an agent under systemd's MemoryKSM would pass on: by the time
// that a write takes, others would learn what the program has in memory.
func stopMerging(*stage) error {
	err := unix.Prctl(unix.PR_SET_MEMORY_MERGE, 0, 0, 0, 0)
	if err == unix.EINVAL { // a kernel that has none, or none for whole processes
		return nil
	}
	return call("prctl(PR_SET_MEMORY_MERGE, 0)", err)
}

// newKeyring gives the program a session keyring of its own. The one that is inherited is the agent's, and whoever has a
// keyring may read the keys in it, whatever its ids.
func newKeyring(*stage) error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err == nil || err == unix.ENOSYS { // a kernel without keys has none to inherit
		return nil
	}
	// An outer filter that refuses keyctl stays in force for the program, which then reaches no key either.
	const session = -3 // KEY_SPEC_SESSION_KEYRING
	if _, asked := unix.KeyctlGetKeyringID(session, false); err == unix.EPERM && asked == unix.EPERM {
		return nil
	}
	return fmt.Errorf("keyctl(KEYCTL_JOIN_SESSION_KEYRING): %w", err)
}
