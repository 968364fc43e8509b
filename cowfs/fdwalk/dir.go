// Package fdwalk goes through hostile directory trees by descriptors: nothing is reached by a path, no link is followed, and
// the number of open descriptors does not depend on the depth of the tree.
//
// Called by: cowfs and cowfs/snapshot. Privileges: those needed to read the tree. Concurrency: a Walk and a Stack belong
// to one goroutine; the tree may change meanwhile, which ends in entries left out or in an error, never outside of it.
package fdwalk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenDir opens the directory name in dir; a link there is an error.
func OpenDir(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("openat %s: %w", Quote(name), err)
	}
	return os.NewFile(uintptr(fd), dir.Name()+"/"+name), nil
}

// ErrTooMany: a directory has more entries than the caller wants to hold in memory.
var ErrTooMany = errors.New("too many entries in one directory")

// Names lists dir from its beginning, at most limit names.
func Names(dir *os.File, limit int) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("lseek directory: %w", err)
	}
	names, err := dir.Readdirnames(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("getdents: %w", err)
	}
	if len(names) > limit {
		return nil, fmt.Errorf("%w: more than %d", ErrTooMany, limit)
	}
	return names, nil
}

// FirstNames lists at most limit names from the beginning of dir: for a loop that removes them and asks again.
func FirstNames(dir *os.File, limit int) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("lseek directory: %w", err)
	}
	names, err := dir.Readdirnames(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("getdents: %w", err)
	}
	return names, nil
}

// Quote makes a hostile string safe to print and short enough for a log line.
func Quote(s string) string {
	const limit = 128
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strconv.QuoteToASCII(s)
}
