package cowfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fsNames are the file systems an operator may meet below a state directory, by statfs(2) magic.
var fsNames = map[int64]string{
	unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.EXT4_SUPER_MAGIC:      "ext4",
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.NFS_SUPER_MAGIC:       "nfs",
	unix.FUSE_SUPER_MAGIC:      "fuse",
	unix.CEPH_SUPER_MAGIC:      "ceph",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	0x2fc12fc1:                 "zfs",
}

// probe finds out by trying whether dir can hold the uppers of overlays, and which mount options this kernel has.
func probe(dir string) Support {
	var s Support
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		s.Problem = fmt.Sprintf("statfs %s: %v", dir, err)
		return s
	}
	s.FSType = fsNames[int64(fs.Type)]
	if s.FSType == "" {
		s.FSType = fmt.Sprintf("%#x", fs.Type)
	}
	s.Prompt = promptFS[s.FSType]

	scratch, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		s.Problem = fmt.Sprintf("make a directory in the state directory: %v", err)
		return s
	}
	defer os.RemoveAll(scratch)

	s.Xattr = unix.Setxattr(scratch, "trusted.overlay.opaque", []byte("y"), 0) == nil
	s.Tmpfile = hasTmpfile(scratch)
	s.DType = hasDType(scratch)

	s.SharedBase = tryBase(scratch)
	s.OwnBase = s.SharedBase == ""
	var why error
	for _, volatile := range []bool{true, false} {
		if err := tryOverlay(scratch, volatile); err != nil {
			why = errors.Join(why, err)
			continue
		}
		s.Overlay, s.Volatile = true, volatile
		break
	}
	s.Problem = s.problem(dir, why)
	if s.Problem == "" {
		s.NoQuota = tryQuota(scratch, s.Volatile)
		s.Quota = s.NoQuota == ""
	}
	return s
}

// problem puts into words what keeps trees from being made; empty when nothing does.
func (s Support) problem(dir string, why error) string {
	fix := " Put the state directory on a local disk (ext4, xfs, btrfs) or a tmpfs; in Kubernetes a hostPath or an emptyDir."
	switch {
	case s.FSType == "overlay":
		return fmt.Sprintf("state directory %s lies on overlay (a container's own file system), which cannot hold the upper of another overlay.%s", dir, fix)
	case !s.Xattr:
		return fmt.Sprintf("state directory %s lies on %s, which refuses trusted.* extended attributes (or CAP_SYS_ADMIN is missing).%s", dir, s.FSType, fix)
	case !s.DType:
		return fmt.Sprintf("state directory %s lies on %s, which does not tell file types in directory listings (xfs: ftype=1).%s", dir, s.FSType, fix)
	case !s.Overlay:
		return fmt.Sprintf("no overlay can be mounted over %s (%s): %v", dir, s.FSType, why)
	}
	return ""
}

// tryOverlay mounts an overlay below scratch, deletes a lower file through it and looks for the whiteout.
func tryOverlay(scratch string, volatile bool) (err error) {
	base, err := os.MkdirTemp(scratch, "o-")
	if err != nil {
		return err
	}
	var dirs [3]*os.File
	for i, name := range []string{"lower", "upper", "work"} {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		if dirs[i], err = os.Open(path); err != nil {
			return err
		}
		defer dirs[i].Close()
	}
	if err := os.WriteFile(filepath.Join(base, "lower", "f"), nil, 0o644); err != nil {
		return err
	}
	mnt, err := mountOverlay(dirs[:1], dirs[1], dirs[2], volatile)
	if err != nil {
		return err
	}
	defer mnt.Close()
	if err := unix.Unlinkat(int(mnt.Fd()), "f", 0); err != nil {
		return fmt.Errorf("unlinkat in a new overlay (upper read-only?): %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(dirs[1].Fd()), "f", &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("fstatat whiteout: %w", err)
	}
	if !isWhiteout(&st) {
		return errors.New("overlay did not leave a whiteout")
	}
	return nil
}

func hasTmpfile(dir string) bool {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// hasDType reads dir raw: os.ReadDir would hide a missing type behind an lstat.
func hasDType(dir string) bool {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	buf := make([]byte, 1024)
	n, err := unix.Getdents(fd, buf)
	const typeOffset = 18 // struct linux_dirent64: ino 8, off 8, reclen 2, type 1
	return err == nil && n > typeOffset && buf[typeOffset] == unix.DT_DIR
}

func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}
