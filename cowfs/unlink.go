package cowfs

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// Remove takes one file or link away, never what a link points to, and never a directory. A file that is gone already is no
// error. The directory's times stay as they are: what is removed here was put there by the agent.
func (t *Tree) Remove(p string) error {
	rel, err := cleanPath(p)
	if err != nil {
		return err
	}
	dir, err := t.open(dirOf(rel), unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", quote(p), err)
	}
	defer dir.Close()
	var before unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &before); err != nil {
		return fmt.Errorf("remove %s: fstat: %w", quote(p), err)
	}
	if err := unix.Unlinkat(int(dir.Fd()), path.Base(rel), 0); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("remove %s: unlinkat: %w", quote(p), err)
	}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, fdPath(dir), []unix.Timespec{before.Atim, before.Mtim}, 0); err != nil {
		return fmt.Errorf("remove %s: utimensat: %w", quote(p), err)
	}
	return nil
}
