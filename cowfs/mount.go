package cowfs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountOverlay assembles a detached overlay over lowers, the topmost first. Layers are named as /proc/self/fd/N, which any
// kernel takes, and which is all that a jail then reads in its /proc/self/mountinfo: for a layer handed over as a descriptor
// (6.13) the kernel looks up the node's path and shows it. With volatile set, overlayfs neither honours fsync nor syncs the disk when
// it is unmounted: right for trees that nobody keeps.
//
// redirect_dir and metacopy are switched off in so many words: with either, an upper holds files without data and
// directories under other names, and a flush of the upper alone would save holes.
func mountOverlay(lowers []*os.File, upper, work *os.File, volatile bool) (*os.File, error) {
	fs, err := openFS("overlay")
	if err != nil {
		return nil, err
	}
	defer fs.close()

	fs.set("source", "tolbooth")
	paths := make([]string, len(lowers))
	for i, d := range lowers {
		paths[i] = fdPath(d)
	}
	fs.set("lowerdir", strings.Join(paths, ":"))
	fs.set("upperdir", fdPath(upper))
	fs.set("workdir", fdPath(work))
	fs.set("redirect_dir", "nofollow")
	fs.set("metacopy", "off")
	fs.set("index", "off")
	if volatile {
		fs.flag("volatile")
	}
	return fs.mount(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
}

// cloneReadOnly makes a detached clone of the directory at path, without the mounts below it. The jail can clear the
// read-only flag (mounts moved into a user namespace by hand are not locked), which is why the clone is never idmapped:
// the jail's ids own nothing in it.
func cloneReadOnly(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open_tree %s (OPEN_TREE_CLONE): %w", path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mount_setattr %s (RDONLY, NOSUID, NODEV): %w", path, err)
	}
	return os.NewFile(uintptr(fd), "mount:"+path), nil
}

// fsContext is one file system under construction (fsopen(2)). The first error sticks and mount reports it, so that a
// list of options reads as a list.
type fsContext struct {
	fd  int
	typ string
	err error
}

func openFS(typ string) (*fsContext, error) {
	fd, err := unix.Fsopen(typ, unix.FSOPEN_CLOEXEC)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOSYS) {
		return nil, fmt.Errorf("%w: fsopen %s: %w", ErrUnsupported, typ, err)
	}
	if err != nil {
		return nil, fmt.Errorf("fsopen %s: %w", typ, err)
	}
	return &fsContext{fd: fd, typ: typ}, nil
}

func (c *fsContext) close() { unix.Close(c.fd) }

func (c *fsContext) set(key, value string) {
	if c.err != nil {
		return
	}
	c.fail("set "+key+"="+value, unix.FsconfigSetString(c.fd, key, value))
}

func (c *fsContext) flag(key string) {
	if c.err != nil {
		return
	}
	c.fail("set "+key, unix.FsconfigSetFlag(c.fd, key))
}

// mount creates the file system and returns its detached mount.
func (c *fsContext) mount(attr int) (*os.File, error) {
	if c.err == nil {
		c.fail("create", unix.FsconfigCreate(c.fd))
	}
	if c.err != nil {
		return nil, c.err
	}
	fd, err := unix.Fsmount(c.fd, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		c.fail("fsmount", err)
		return nil, c.err
	}
	return os.NewFile(uintptr(fd), "mount:"+c.typ), nil
}

// readOnly makes the file system itself read-only, not only its mount: a jail can clear a mount's flag, but not the
// superblock's, which belongs to the initial user namespace.
func (c *fsContext) readOnly() error {
	c.flag("ro")
	if c.err == nil {
		c.fail("reconfigure read-only", unix.FsconfigReconfigure(c.fd))
	}
	return c.err
}

// fail keeps err with the kernel's own words, which fsopen's descriptor holds one line a read.
func (c *fsContext) fail(what string, err error) {
	if err == nil {
		return
	}
	var said []string
	buf := make([]byte, 1024)
	for range 8 {
		n, readErr := unix.Read(c.fd, buf)
		if readErr != nil || n <= 0 {
			break
		}
		said = append(said, strings.TrimSpace(string(buf[:n])))
	}
	c.err = fmt.Errorf("fsconfig %s: %s: %w", c.typ, what, err)
	if len(said) > 0 {
		c.err = fmt.Errorf("%w (%s)", c.err, strings.Join(said, "; "))
	}
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOSYS) {
		c.err = fmt.Errorf("%w: %w", ErrUnsupported, c.err)
	}
}
