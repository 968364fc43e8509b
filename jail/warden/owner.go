package warden

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// asOwner runs fn with a user as the calling thread's effective one, every capability kept. A user namespace that is made
// meanwhile belongs to that user: the kernel charges what a jail takes of a user's budgets (inotify instances, queued
// signals, message queues) to the namespace's owner too, and with root as every jail's owner one job would use up the node's.
//
// Preconditions: OS thread locked. Files are still opened as the real user.
func asOwner(uid uint32, fn func() error) (err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if err := setEffective(uint32(unix.Getuid()), uid); err != nil {
		return err
	}
	defer func() {
		if back := setEffective(uint32(unix.Getuid()), uint32(unix.Getuid())); back != nil && err == nil {
			err = back
		}
	}()
	// Leaving uid 0 empties the effective set, and only that one.
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return fn()
}

// setEffective sets the thread's effective user, and the user that it opens files as. The wrappers of package syscall would
// change every thread.
func setEffective(files, uid uint32) error {
	const keep = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
		return fmt.Errorf("setresuid(-1, %d, -1): %w", uid, errno)
	}
	_, err := unix.SetfsuidRetUid(int(files))
	if err != nil {
		return fmt.Errorf("setfsuid(%d): %w", files, err)
	}
	return nil
}
