package pid1

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

const mountFlags = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// option is one setting of a file system.
type option struct{ key, value string }

// newMount makes a file system and returns its detached mount.
func newMount(kind string, options []option, attributes int) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen(%s): %w", kind, err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o.key, o.value); err != nil {
			return -1, fmt.Errorf("fsconfig(%s, %s=%s): %w", kind, o.key, o.value, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("fsconfig(%s, CREATE): %w", kind, err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("fsmount(%s): %w", kind, err)
	}
	return mount, nil
}

func attachTmpfs(b *builder) error {
	for _, t := range b.Tmpfs {
		if err := b.attachOneTmpfs(t); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) attachOneTmpfs(t wire.Tmpfs) error {
	if t.Bytes <= 0 {
		return fmt.Errorf("tmpfs at %s has no size limit", t.Target)
	}
	options := append(sizes(t),
		option{"mode", strconv.FormatUint(uint64(t.Mode), 8)},
		option{"uid", strconv.FormatUint(uint64(t.UID), 10)},
		option{"gid", strconv.FormatUint(uint64(t.GID), 10)},
	)
	mount, err := newMount("tmpfs", options, mountFlags)
	if err != nil {
		return fmt.Errorf("tmpfs at %s: %w", t.Target, err)
	}
	b.memory[t.Target] = mount // kept open: a resize goes by it and looks up no path
	return b.attach(mount, t.Target, unix.O_DIRECTORY)
}

// sizes are the options of a tmpfs that can be changed later.
func sizes(t wire.Tmpfs) []option {
	options := []option{{"size", strconv.FormatInt(t.Bytes, 10)}}
	if t.Inodes > 0 {
		options = append(options, option{"nr_inodes", strconv.FormatInt(t.Inodes, 10)})
	}
	return options
}

// memoryMounts are the memory file systems of the root by target, as descriptors of their mounts.
type memoryMounts map[string]int

// resize gives each the limits that list says.
func (m memoryMounts) resize(list []wire.Tmpfs) error {
	for _, t := range list {
		mount, ok := m[t.Target]
		if !ok || t.Bytes <= 0 {
			return fmt.Errorf("no tmpfs at %s to give %d bytes", t.Target, t.Bytes)
		}
		if err := reconfigure(mount, sizes(t)); err != nil {
			return fmt.Errorf("tmpfs at %s: %w", t.Target, err)
		}
	}
	return nil
}

func reconfigure(mount int, options []option) error {
	fs, err := unix.Fspick(mount, "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("fspick: %w", err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o.key, o.value); err != nil {
			return fmt.Errorf("fsconfig(%s=%s): %w", o.key, o.value, err)
		}
	}
	if err := unix.FsconfigReconfigure(fs); err != nil {
		return fmt.Errorf("fsconfig(RECONFIGURE): %w", err)
	}
	return nil
}

// attachPTS gives the jail pseudo-terminals of its own. /dev/ptmx of the job's /dev is a link to pts/ptmx. Their number is
// bounded, since all instances of devpts together have 3072 (kernel.pty.max less kernel.pty.reserve): one job took them all.
func attachPTS(b *builder) error {
	const tty, most = "5", "64" // the group of terminals, as in every distribution; more than any honest job was seen to open
	mount, err := newMount("devpts", []option{{"ptmxmode", "0666"}, {"mode", "0620"}, {"gid", tty}, {"max", most}},
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return b.attach(mount, "/dev/pts", unix.O_DIRECTORY)
}
