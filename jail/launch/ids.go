package launch

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// From linux/securebits.h, which x/sys lacks. NO_SETUID_FIXUP stays clear: setresuid is to drop the capabilities.
const (
	secureNoRoot              = 1 << 0
	secureNoRootLocked        = 1 << 1
	secureNoSetuidFixupLocked = 1 << 3
	secureKeepCapsLocked      = 1 << 5
	secureNoAmbientRaise      = 1 << 6
	secureNoAmbientLocked     = 1 << 7
)

// lockSecurebits takes every privilege from uid 0, should the program ever become it, and locks that.
func lockSecurebits(*stage) error {
	bits := secureNoRoot | secureNoRootLocked | secureNoSetuidFixupLocked | secureKeepCapsLocked |
		secureNoAmbientRaise | secureNoAmbientLocked
	return call("prctl(PR_SET_SECUREBITS)", unix.Prctl(unix.PR_SET_SECUREBITS, uintptr(bits), 0, 0, 0))
}

// dropBoundingSet drops what this kernel has, however many; it says EINVAL behind the last.
func dropBoundingSet(*stage) error {
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL && c > unix.CAP_LAST_CAP/2 {
			return nil
		}
		if err != nil {
			return call(fmt.Sprintf("prctl(PR_CAPBSET_DROP, %d)", c), err)
		}
	}
	return nil
}

// setIDs becomes the program's user and group, with that group alone. These are the thread's ids: the wrappers of package
// syscall would change every thread and need more steps to fail half-way.
func setIDs(s *stage) error {
	if s.UID == 0 || s.GID == 0 {
		return errors.New("the program may not have the jail's id 0")
	}
	uid, gid := uintptr(s.UID), uintptr(s.GID)
	if err := unix.Setgroups([]int{int(s.GID)}); err != nil {
		return call("setgroups", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return call("setresgid", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return call("setresuid", errno)
	}
	return nil
}

// dropCapabilities empties every set and looks whether they are empty.
func dropCapabilities(*stage) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return call("prctl(PR_CAP_AMBIENT_CLEAR_ALL)", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return call("capset", err)
	}
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return call("capget", err)
	}
	if sets != [2]unix.CapUserData{} {
		return errors.New("capset left capabilities")
	}
	return nil
}
