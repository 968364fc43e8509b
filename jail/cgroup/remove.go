package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// emptyWait bounds Remove. A killed process is gone in 1 to 2 ms unless it sleeps uninterruptibly or frees many GiB.
const emptyWait = 10 * time.Second

// Remove waits until the group is empty and removes it, with the groups below it. A group that is gone is no error.
func (g Group) Remove() error {
	if err := g.WaitEmpty(emptyWait); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	var errs []error
	for _, dir := range g.all() {
		errs = append(errs, removeTree(dir))
	}
	return errors.Join(errs...)
}

// removeTree removes an empty group's directory and those below it, deepest first.
func removeTree(dir string) error {
	if err := unix.Rmdir(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	children, err := list(dir)
	if err != nil {
		return err
	}
	for _, name := range children {
		if err := removeTree(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return removeDir(dir)
}

// removeDir is rmdir. A v1 directory stays busy for a moment after its last process died, since the exit path leaves
// the hierarchies one after the other; there is nothing to wait on, so it is tried again for up to half a second.
func removeDir(dir string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || wait > 256*time.Millisecond {
			return fmt.Errorf("rmdir %s: %w", dir, err)
		}
		time.Sleep(wait)
	}
}
