package pid1

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// shown are the files of /proc, beside the directories of processes, that honest programs read: what the machine can do and how
// busy it is. Everything else, of this kernel or a coming one, says more than a job needs: which devices and modules the node
// has, how it was started, which files of other jobs are locked, where the kernel keeps what.
var shown = []string{
	"cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sysvipc", "tty", "uptime", "version", "vmstat", // net, mounts, self are links
}

// readOnly are shown too, and change more than a job may.
var readOnly = []string{"sys", "sysrq-trigger"}

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
	if b.namespaces, err = openNamespaceLimits(proc); err != nil {
		return err
	}
	for _, name := range readOnly {
		if err := protect(proc, name); err != nil {
			return fmt.Errorf("make /proc/%s read-only: %w", name, err)
		}
	}
	return b.hideRest(proc)
}

// hideRest hides what is not named above. A process's directory is a number; a link leads only to what the jail sees.
func (b *builder) hideRest(proc int) error {
	c, err := b.newCovers(proc)
	if err != nil {
		return err
	}
	defer c.close()
	entries, err := readDir(proc)
	if err != nil {
		return fmt.Errorf("list /proc: %w", err)
	}
	for _, e := range entries {
		if number(e.Name()) || e.Type() == os.ModeSymlink || slices.Contains(shown, e.Name()) || slices.Contains(readOnly, e.Name()) {
			continue
		}
		if err := c.hide(e); err != nil {
			return fmt.Errorf("hide /proc/%s: %w", e.Name(), err)
		}
	}
	return nil
}

// readDir lists a directory that is open as a path.
func readDir(at int) ([]os.DirEntry, error) {
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("openat: %w", err)
	}
	dir := os.NewFile(uintptr(fd), "/proc")
	defer dir.Close()
	return dir.ReadDir(-1)
}

func number(name string) bool { return name[0] >= '0' && name[0] <= '9' }

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
	if err := setAttributes(clone, unix.MOUNT_ATTR_RDONLY, 0); err != nil {
		return err
	}
	return cover(clone, proc, name)
}

func cover(mount, dir int, name string) error {
	if err := unix.MoveMount(mount, "", dir, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}
