package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mountLayer makes the two kinds of detached mount that a jail is built from. Neither is attached anywhere.
func mountLayer() Layer {
	fix := "grant CAP_SYS_ADMIN, on kernel 5.12 or newer, without a seccomp profile that refuses fsopen(2), fsmount(2), open_tree(2) and mount_setattr(2)"
	for _, try := range []func() error{tryTmpfs, tryClonedMount} {
		if err := try(); err != nil {
			return missing("mount-api", err.Error(), fix)
		}
	}
	return ok("mount-api", "detached file systems and read-only clones")
}

func tryTmpfs() error {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen tmpfs: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.FsconfigCreate(fd); err != nil {
		return fmt.Errorf("fsconfig (FSCONFIG_CMD_CREATE): %w", err)
	}
	mount, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("fsmount tmpfs: %w", err)
	}
	return unix.Close(mount)
}

func tryClonedMount() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/usr", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree /usr (OPEN_TREE_CLONE): %w", err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr (MOUNT_ATTR_RDONLY): %w", err)
	}
	return nil
}

// existing is dir, or its nearest parent that exists: before the first start there is no state directory yet.
func existing(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			return dir, nil
		case err == nil:
			return "", fmt.Errorf("%s is no directory", dir)
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		dir = filepath.Dir(dir)
	}
}

func openat2Layer() Layer {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &how)
	if err != nil {
		return missing("openat2", fmt.Sprintf("openat2 (RESOLVE_IN_ROOT): %v", err), "use kernel 5.6 or newer, without a seccomp profile that refuses openat2(2)")
	}
	unix.Close(fd)
	return ok("openat2", "")
}

func pidfdLayer() Layer {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return missing("pidfd", fmt.Sprintf("pidfd_open: %v", err), "use kernel 5.3 or newer, without a seccomp profile that refuses pidfd_open(2)")
	}
	unix.Close(fd)
	return ok("pidfd", "")
}
