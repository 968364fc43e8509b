package cowfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// emptyName is a directory below skel that holds nothing: an overlay without an upper wants two lower layers.
const emptyName = "empty"

// openEmpty makes the empty directory if need be. Every agent of this state directory has the same one.
func (m *Manager) openEmpty() (err error) {
	if err := unix.Mkdirat(int(m.skel.Fd()), emptyName, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("mkdirat skel/%s: %w", emptyName, err)
	}
	m.empty, err = fdwalk.OpenDir(m.skel, emptyName)
	return err
}

// base makes what one jail sees of a directory of the node: read-only, nosuid, nodev, without the mounts below it. It is a
// file system of the jail's own where the kernel can stack one more: locks, leases and watches on its files are then the
// jail's alone. A clone of the node's mount would let a job hold flock(2) against the node's programs and see by inotify
// what they open.
func (m *Manager) base(path string) (*os.File, error) {
	if !m.support.OwnBase {
		return cloneReadOnly(path)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return mountBase(dir, m.empty)
}

// mountBase assembles a detached overlay without an upper: nothing can make it writable. xino keeps the numbers of its
// files on one device, which is what tools look at to stay on one file system.
func mountBase(dir, empty *os.File) (*os.File, error) {
	fs, err := openFS("overlay")
	if err != nil {
		return nil, err
	}
	defer fs.close()
	fs.set("source", "tolbooth")
	fs.set("lowerdir", fdPath(dir)+":"+fdPath(empty))
	fs.set("xino", "auto")
	return fs.mount(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
}

// tryBase says why a jail cannot have a file system of its own over the node's /usr: most often because /usr lies on as
// many layers as the kernel stacks. Empty: it can.
func tryBase(scratch string) string {
	empty, err := os.Open(scratch)
	if err != nil {
		return err.Error()
	}
	defer empty.Close()
	usr, err := os.Open("/usr")
	if err != nil {
		return err.Error()
	}
	defer usr.Close()
	mnt, err := mountBase(usr, empty)
	if err != nil {
		return err.Error()
	}
	mnt.Close()
	return ""
}
