package pid1

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// covers are what parts of /proc are hidden by: the jail's /dev/null a file, an empty file system a directory.
type covers struct {
	proc  int
	null  int // a path
	empty int // a mount; -1: not made yet
}

func (b *builder) newCovers(proc int) (*covers, error) {
	null, err := b.openNull()
	if err != nil {
		return nil, err
	}
	return &covers{proc: proc, null: null, empty: -1}, nil
}

func (c *covers) close() {
	unix.Close(c.null)
	if c.empty >= 0 {
		unix.Close(c.empty)
	}
}

func (c *covers) hide(e os.DirEntry) error {
	if !e.IsDir() {
		return c.coverBy(c.null, e.Name())
	}
	if c.empty >= 0 {
		return c.coverBy(c.empty, e.Name())
	}
	var err error
	if c.empty, err = emptyDirectory(); err != nil {
		return err
	}
	return cover(c.empty, c.proc, e.Name()) // itself, the first time: the kernel clones only what is attached
}

// coverBy puts a clone over an entry.
func (c *covers) coverBy(what int, name string) error {
	clone, err := cloneOf(what)
	if err != nil {
		return err
	}
	defer unix.Close(clone)
	return cover(clone, c.proc, name)
}

func emptyDirectory() (int, error) {
	options := []option{{"size", "4k"}, {"nr_inodes", "1"}, {"mode", "0555"}}
	return newMount("tmpfs", options, mountFlags|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY)
}

// openNull opens the jail's /dev/null, having made sure that it is that (CVE-2025-31133: it was a symlink to another file).
func (b *builder) openNull() (int, error) {
	null, err := b.open("/dev/null", 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(null, &st); err != nil {
		return -1, errors.Join(fmt.Errorf("fstat /dev/null: %w", err), unix.Close(null))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
		return -1, errors.Join(errors.New("/dev/null is not the null device"), unix.Close(null))
	}
	return null, nil
}

// cloneOf returns a new detached mount of what a descriptor names.
func cloneOf(fd int) (int, error) {
	mount, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	return mount, nil
}
