package pid1

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// readOnly and hidden are the parts of /proc that say or change more than a job needs. Almost all of it is closed to the
// program's uid already; this holds for whatever is not. A kernel without one of them has nothing to cover.
var (
	readOnly = []string{"sys", "irq", "bus", "fs", "sysrq-trigger"}
	hidden   = []string{"acpi", "asound", "scsi", "kcore", "keys", "latency_stats", "sched_debug", "timer_list", "interrupts"}
)

// attachProc mounts the jail's own procfs and covers parts of it. Everything is opened below the new mount, before anything
// of the job can run.
func attachProc(b *builder) error {
	proc, err := newMount("proc", nil, mountFlags|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	if err := b.attach(proc, "/proc", unix.O_DIRECTORY); err != nil {
		return err
	}
	if err := noUserNamespaces(proc); err != nil {
		return fmt.Errorf("forbid user namespaces: %w", err)
	}
	for _, name := range readOnly {
		if err := protect(proc, name); err != nil {
			return fmt.Errorf("make /proc/%s read-only: %w", name, err)
		}
	}
	for _, name := range hidden {
		if err := b.hide(proc, name); err != nil {
			return fmt.Errorf("hide /proc/%s: %w", name, err)
		}
	}
	return nil
}

// noUserNamespaces lets nobody in the jail make a user namespace, where a program would have every capability again. The filter
// refuses that as well; the minimal mode has none. The setting is the jail's own and cannot be undone once it is read-only.
func noUserNamespaces(proc int) error {
	fd, err := unix.Openat(proc, "sys/user/max_user_namespaces", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil // a kernel without sysctl
	}
	if err != nil {
		return fmt.Errorf("openat: %w", err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("0")); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// protect covers a part of /proc by a read-only view of itself.
func protect(proc int, name string) error {
	clone, err := unix.OpenTree(proc, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(clone)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(clone, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return cover(clone, proc, name)
}

// hide covers a file of /proc by the jail's /dev/null, and a directory by an empty file system.
func (b *builder) hide(proc int, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(proc, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fstatat: %w", err)
	}
	makeCover := b.cloneNull
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		makeCover = emptyDirectory
	}
	mount, err := makeCover()
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return cover(mount, proc, name)
}

func emptyDirectory() (int, error) {
	options := []option{{"size", "4k"}, {"nr_inodes", "1"}, {"mode", "0555"}}
	return newMount("tmpfs", options, mountFlags|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY)
}

// cloneNull clones the jail's /dev/null, having made sure that it is that (CVE-2025-31133: it was a symlink to another file).
func (b *builder) cloneNull() (int, error) {
	null, err := b.open("/dev/null", 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(null)
	var st unix.Stat_t
	if err := unix.Fstat(null, &st); err != nil {
		return -1, fmt.Errorf("fstat /dev/null: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
		return -1, errors.New("/dev/null is not the null device")
	}
	mount, err := unix.OpenTree(null, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fmt.Errorf("open_tree /dev/null: %w", err)
	}
	return mount, nil
}

func cover(mount, dir int, name string) error {
	if err := unix.MoveMount(mount, "", dir, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}
