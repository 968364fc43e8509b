package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/unix"
)

// supervise starts the command, passes signals on, reaps every child until the command has ended, and returns its exit
// code as a shell would give it.
func supervise(command []string) (int, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, fmt.Errorf("find command: %w", err)
	}
	// Before the start: a TERM that arrives between the two must not be lost.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	child, err := os.StartProcess(path, command, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	go func() {
		for s := range signals {
			// The pid stays the child's own until reap has seen its end, and then this process ends.
			unix.Kill(child.Pid, s.(unix.Signal)) //nolint:errcheck // a child that just ended needs no signal
		}
	}()
	return reap(child.Pid)
}

// reap waits for all children, adopted ones too, until pid has ended. It owns wait4(-1): nothing else in this process
// waits.
func reap(pid int) (int, error) {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("wait4: %w", err)
		}
		if ended != pid {
			continue
		}
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	}
}
