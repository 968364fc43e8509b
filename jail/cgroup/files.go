package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Raw descriptors, not os.File: a kernfs file is pollable, so the runtime would register each with its poller.

// maxFile bounds what is read of one control file. cgroup.procs of a full pid space (4 Mi pids) would be larger; the
// callers that read it loop until the group is empty.
const maxFile = 1 << 20

// write sets the control file name in dir.
func write(dir, name, value string) error {
	path := filepath.Join(dir, name)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if _, err := retry(func() (int, error) { return unix.Write(fd, []byte(value)) }); err != nil {
		return fmt.Errorf("write %q to %s: %w", value, path, err)
	}
	return nil
}

// read returns the control file name in dir.
func read(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 0, 4096)
	for {
		n, err := retry(func() (int, error) { return unix.Read(fd, buf[len(buf):cap(buf)]) })
		if err != nil {
			return "", fmt.Errorf("read %s: %w", path, err)
		}
		buf = buf[:len(buf)+n]
		if n == 0 || len(buf) >= maxFile {
			return string(buf), nil
		}
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, len(buf))...)[:len(buf)]
		}
	}
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// readInt returns a control file that holds one number.
func readInt(dir, name string) (int64, error) {
	text, err := read(dir, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", filepath.Join(dir, name), err)
	}
	return n, nil
}

// readKey returns the number behind key in a control file of "key number" lines.
func readKey(dir, name, key string) (int64, error) {
	text, err := read(dir, name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[0] != key {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parse %s in %s: %w", key, filepath.Join(dir, name), err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("%s has no line %s", filepath.Join(dir, name), key)
}

// readPids returns the processes listed in dir. Those outside the reader's pid namespace are listed as 0.
func readPids(dir string) ([]int, error) {
	text, err := read(dir, "cgroup.procs")
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", filepath.Join(dir, "cgroup.procs"), err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// list returns the names of the groups directly below dir. A directory that is gone has none.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list cgroups in %s: %w", dir, err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
