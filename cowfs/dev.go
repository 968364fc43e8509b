package cowfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// deviceNodes are the only devices of a jail.
var deviceNodes = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3},
	{"zero", 1, 5},
	{"full", 1, 7},
	{"random", 1, 8},
	{"urandom", 1, 9},
	{"tty", 5, 0},
}

var deviceLinks = [][2]string{
	{"fd", "/proc/self/fd"},
	{"stdin", "/proc/self/fd/0"},
	{"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"},
	{"ptmx", "pts/ptmx"},
}

// mountDev makes the /dev of one job: a tmpfs of its own, since a jail could make a shared one writable. Nodes cannot be
// made inside a user namespace, so they are made here.
func mountDev(idBase uint32) (*os.File, error) {
	fs, err := openFS("tmpfs")
	if err != nil {
		return nil, err
	}
	defer fs.close()
	fs.set("source", "dev")
	fs.set("size", "64k")
	fs.set("nr_inodes", "32")
	fs.set("mode", "0755")
	fs.set("uid", fmt.Sprint(idBase))
	fs.set("gid", fmt.Sprint(idBase))
	mnt, err := fs.mount(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, err
	}
	if err := fillDev(int(mnt.Fd()), int(idBase)); err != nil {
		mnt.Close()
		return nil, err
	}
	if err := fs.readOnly(); err != nil {
		mnt.Close()
		return nil, err
	}
	return mnt, nil
}

func fillDev(dir, owner int) error {
	for _, n := range deviceNodes {
		if err := unix.Mknodat(dir, n.name, unix.S_IFCHR|0o666, int(unix.Mkdev(n.major, n.minor))); err != nil {
			return fmt.Errorf("mknodat /dev/%s: %w", n.name, err)
		}
		// The mode given to mknodat passes through the umask.
		if err := unix.Fchmodat(dir, n.name, 0o666, 0); err != nil {
			return fmt.Errorf("fchmodat /dev/%s: %w", n.name, err)
		}
		if err := unix.Fchownat(dir, n.name, owner, owner, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("fchownat /dev/%s: %w", n.name, err)
		}
	}
	for _, l := range deviceLinks {
		if err := unix.Symlinkat(l[1], dir, l[0]); err != nil {
			return fmt.Errorf("symlinkat /dev/%s: %w", l[0], err)
		}
	}
	for _, d := range []string{"pts", "shm"} {
		if err := unix.Mkdirat(dir, d, 0o755); err != nil {
			return fmt.Errorf("mkdirat /dev/%s: %w", d, err)
		}
	}
	return nil
}
