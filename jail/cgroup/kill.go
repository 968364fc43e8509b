package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Kill sends SIGKILL to every process of the group, those being forked included. It does not wait: Remove and WaitEmpty
// do. A group that is gone is no error.
func (g Group) Kill() error {
	err := write(g.Unified, "cgroup.kill", "1")
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, serr := read(g.Unified, "cgroup.events"); errors.Is(serr, fs.ErrNotExist) {
		return nil
	}
	return g.killFrozen()
}

// killFrozen is Kill before kernel 5.14: a frozen group cannot fork away from the signals, and SIGKILL ends a frozen
// process. It is thawed at the end, since a group left frozen would freeze the next member.
func (g Group) killFrozen() error {
	if err := g.Freeze(); err != nil {
		return err
	}
	return errors.Join(signalMembers(g.Unified), g.Thaw())
}

// signalMembers kills the processes listed in dir. Between listing and signalling a pid may get a new owner, so it is
// held by a pidfd and signalled only when it is listed again.
func signalMembers(dir string) error {
	pids, err := readPids(dir)
	if err != nil {
		return err
	}
	fds := make(map[int]int, len(pids))
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil && err != unix.ESRCH {
			return fmt.Errorf("pidfd_open %d of %s: %w", pid, dir, err)
		}
		if err == nil {
			fds[pid] = fd
		}
	}
	pids, err = readPids(dir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		fd, ok := fds[pid]
		if !ok {
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
			return fmt.Errorf("kill %d of %s: %w", pid, dir, err)
		}
	}
	return nil
}

// WaitEmpty waits until no process is left in the group.
func (g Group) WaitEmpty(timeout time.Duration) error {
	empty, err := g.awaitEvent("populated", 0, timeout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || empty {
		return err
	}
	pids, err := g.Processes()
	return errors.Join(fmt.Errorf("cgroup %s still holds processes %v after %v", g.Unified, pids, timeout), err)
}
