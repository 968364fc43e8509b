package cgroup

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// awaitEvent waits until the line `key want` stands in the group's cgroup.events. The kernel wakes a poll on that file
// at each change, so nothing is asked in a loop.
func (g Group) awaitEvent(key string, want int64, timeout time.Duration) (bool, error) {
	path := filepath.Join(g.Unified, "cgroup.events")
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	for deadline := time.Now().Add(timeout); ; {
		// The read takes a fresh look and arms the poll: a change after it is not missed.
		if _, err := unix.Pread(fd, make([]byte, 256), 0); err != nil {
			return false, fmt.Errorf("read %s: %w", path, err)
		}
		got, err := readKey(g.Unified, "cgroup.events", key)
		if err != nil {
			return false, err
		}
		left := time.Until(deadline)
		if got == want || left <= 0 {
			return got == want, nil
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return false, fmt.Errorf("poll %s: %w", path, err)
		}
	}
}
