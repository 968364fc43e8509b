package cowfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openDirAt opens the directory name in dir; a link there is an error.
func openDirAt(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("openat %s: %w", quote(name), err)
	}
	return os.NewFile(uintptr(fd), dir.Name()+"/"+name), nil
}

// readNames lists dir from its beginning, at most limit names.
func readNames(dir *os.File, limit int) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("lseek directory: %w", err)
	}
	names, err := dir.Readdirnames(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("getdents: %w", err)
	}
	if len(names) > limit {
		return nil, fmt.Errorf("%w: directory with more than %d entries", ErrTooLarge, limit)
	}
	return names, nil
}

// firstNames lists at most limit names from the beginning of dir: for a loop that removes them and asks again.
func firstNames(dir *os.File, limit int) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("lseek directory: %w", err)
	}
	names, err := dir.Readdirnames(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("getdents: %w", err)
	}
	return names, nil
}
