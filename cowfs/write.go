package cowfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// WriteFile puts a file into the tree: whole and with its owner, or not at all. uid and gid are jail ids. A relative path
// is relative to /workspace. Missing directories are made as MkdirAll does. What has the name already is replaced when
// it is a regular file or a symbolic link (the link itself, never what it points to); anything else is ErrNotRegular.
//
// uid decides where writing is allowed, as it would in the jail: 0 may write anywhere, others only into directories that
// belong to them or that everyone may write to.
func (t *Tree) WriteFile(p string, data []byte, mode os.FileMode, uid, gid uint32) error {
	rel, err := cleanPath(p)
	if err != nil {
		return err
	}
	dir, err := t.openParent(rel, uid, gid)
	if err != nil {
		return fmt.Errorf("write %s: %w", quote(p), err)
	}
	defer dir.Close()
	var before unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &before); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	if err := t.writeInto(dir, path.Base(rel), data, mode, uid, gid); err != nil {
		return fmt.Errorf("write %s: %w", quote(p), err)
	}
	if synthesizedPath(rel) {
		// These files are ours, not the job's: their directory must not look changed because of them.
		times := []unix.Timespec{before.Atim, before.Mtim}
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, fdPath(dir), times, 0); err != nil {
			return fmt.Errorf("utimensat: %w", err)
		}
	}
	return nil
}

// MkdirAll makes the directory p and those above it that are missing, with mode, owned by uid and gid (jail ids). One
// that exists is left as it is.
func (t *Tree) MkdirAll(p string, mode os.FileMode, uid, gid uint32) error {
	rel, err := cleanPath(p)
	if err != nil {
		return err
	}
	dir, err := t.mkdirAll(rel, mode, uid, gid)
	if err != nil {
		return fmt.Errorf("mkdir %s: %w", quote(p), err)
	}
	return dir.Close()
}

// writeInto writes beside the name and renames: nobody sees the file before it is whole and has its owner.
func (t *Tree) writeInto(dir *os.File, name string, data []byte, mode os.FileMode, uid, gid uint32) (err error) {
	if name == "." || name == "/" {
		return fmt.Errorf("%w: it names a directory", ErrPath)
	}
	if err := t.mayReplace(dir, name, uid); err != nil {
		return err
	}
	tmp := ".tolbooth-" + rand.Text()
	// A process that is being started has a copy of every descriptor until its execve. With a copy of this one the file would
	// still be open for writing when the job executes it (ETXTBSY), so nothing is started meanwhile.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Openat(int(dir.Fd()), tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("openat (O_EXCL): %w", err)
	}
	f := os.NewFile(uintptr(fd), tmp)
	defer f.Close()
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(unix.Unlinkat(int(dir.Fd()), tmp, 0)))
		}
	}()
	if err := f.Chown(t.hostID(uid), t.hostID(gid)); err != nil {
		return fmt.Errorf("fchown: %w", err)
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	// After the chown, which clears the set-id bits.
	if err := unix.Fchmod(fd, uint32(mode.Perm())); err != nil {
		return fmt.Errorf("fchmod: %w", err)
	}
	if err := unix.Renameat(int(dir.Fd()), tmp, int(dir.Fd()), name); err != nil {
		return fmt.Errorf("renameat: %w", err)
	}
	return nil
}

// mayReplace checks what has the name now.
func (t *Tree) mayReplace(dir *os.File, name string, uid uint32) error {
	var st, parent unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fstatat: %w", err)
	}
	if typ := st.Mode & unix.S_IFMT; typ != unix.S_IFREG && typ != unix.S_IFLNK {
		return fmt.Errorf("%w: there is %s of that name", ErrNotRegular, typeName(st.Mode))
	}
	if err := unix.Fstat(int(dir.Fd()), &parent); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	owner := uint32(t.hostID(uid))
	if uid != 0 && parent.Mode&unix.S_ISVTX != 0 && st.Uid != owner && parent.Uid != owner {
		return fmt.Errorf("%w: the file belongs to someone else and its directory is sticky", ErrNotWritable)
	}
	return nil
}

// openParent opens the directory that is to hold rel, making it and those above it when they are missing.
func (t *Tree) openParent(rel string, uid, gid uint32) (*os.File, error) {
	dir, err := t.mkdirAll(dirOf(rel), 0o755, uid, gid)
	if err != nil {
		return nil, err
	}
	if err := t.writable(dir, uid); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func (t *Tree) mkdirAll(rel string, mode os.FileMode, uid, gid uint32) (*os.File, error) {
	dir, err := t.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == nil || !errors.Is(err, ErrNotFound) || rel == "" {
		return dir, err
	}
	above, err := t.mkdirAll(dirOf(rel), mode, uid, gid)
	if err != nil {
		return nil, err
	}
	defer above.Close()
	if err := t.writable(above, uid); err != nil {
		return nil, err
	}
	name := path.Base(rel)
	if err := unix.Mkdirat(int(above.Fd()), name, 0o700); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("%w: %s is a link that leads nowhere", ErrPath, quote("/"+rel))
		}
		return nil, fmt.Errorf("mkdirat %s: %w", quote(name), err)
	}
	// O_NOFOLLOW: should the jail have swapped it meanwhile, this fails instead of changing something else.
	made, err := fdwalk.OpenDir(above, name)
	if err != nil {
		return nil, err
	}
	if err := made.Chown(t.hostID(uid), t.hostID(gid)); err != nil {
		made.Close()
		return nil, fmt.Errorf("fchown %s: %w", quote(name), err)
	}
	if err := unix.Fchmod(int(made.Fd()), uint32(mode.Perm())); err != nil {
		made.Close()
		return nil, fmt.Errorf("fchmod %s: %w", quote(name), err)
	}
	return made, nil
}

// writable says whether jail id uid may make entries in dir. It looks at the opened directory, so it does not matter by
// which links the path got there. Directories that the jail mounts over (/tmp, /run, /dev, /usr …) belong to jail root
// in the skeleton and are refused by the same rule: what is written there would never be seen.
func (t *Tree) writable(dir *os.File, uid uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	if uid == 0 || st.Uid == uint32(t.hostID(uid)) || st.Mode&0o002 != 0 {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to jail id %d (write below /workspace; /tmp, /run and /dev are made for each run)",
		ErrNotWritable, quote("/"+dir.Name()), int64(st.Uid)-int64(t.record.IDBase))
}

// hostID is the host's id of a jail id. An id beyond the slot's range becomes the range's last, which is nobody's.
func (t *Tree) hostID(id uint32) int {
	return int(t.record.IDBase) + int(min(id, idRange-1))
}

// synthesizedPath: files that the agent writes anew for every job. They are no part of a workspace.
func synthesizedPath(rel string) bool {
	return rel == "etc/hosts" || rel == "etc/resolv.conf" || rel == "etc/hostname"
}

func dirOf(rel string) string {
	if d := path.Dir(rel); d != "." {
		return d
	}
	return ""
}

// fdPath names an open file for calls that take a path only.
func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
