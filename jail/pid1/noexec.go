package pid1

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// setAttributes changes the attributes of one mount.
func setAttributes(mount int, set, clear uint64) error {
	attr := unix.MountAttr{Attr_set: set, Attr_clr: clear}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// forbidExec keeps everything below a directory of the root from being executed, and from being mapped as code, which is how
// the dynamic loader would run it.
func forbidExec(target string) error {
	at, err := openBelow(unix.AT_FDCWD, target, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(at, &fs); err != nil {
		return fmt.Errorf("fstatfs %s: %w", target, err)
	}
	if fs.Flags&unix.ST_NOEXEC != 0 {
		return nil
	}
	clone, err := cloneOf(at) // a part of a larger mount: it is covered by a view of itself
	if err != nil {
		return err
	}
	defer unix.Close(clone)
	if err := setAttributes(clone, unix.MOUNT_ATTR_NOEXEC, 0); err != nil {
		return err
	}
	if err := unix.MoveMount(clone, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount to %s: %w", target, err)
	}
	return nil
}
