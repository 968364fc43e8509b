package main

import (
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// prepare mends the mounts of this container.
func prepare() error {
	if err := insideContainer(); err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	mounts, err := readMounts(string(text))
	if err != nil {
		return err
	}
	var changed []string
	for _, s := range plan(mounts) {
		if err := s.do(); err != nil {
			return fmt.Errorf("%w (%s)", err, s.why)
		}
		if s.action != makeDir {
			changed = append(changed, s.point)
		}
	}
	slog.Info("container: mounts mended", "mounts", changed)
	return nil
}

// insideContainer refuses to go on in the node's own mount namespace. As process 1 of a pid namespace this is a container
// by construction; with the node's pid namespace, process 1 is the node's and must have another mount namespace.
func insideContainer() error {
	if os.Getpid() == 1 {
		return nil
	}
	node, err := os.Readlink("/proc/1/ns/mnt")
	if err != nil {
		return fmt.Errorf("compare mount namespaces: %w", err)
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("compare mount namespaces: %w", err)
	}
	if node == own {
		return fmt.Errorf("not in a container: refusing to change this machine's mounts; start `tolbooth agent` itself")
	}
	return nil
}

func (s step) do() error {
	switch s.action {
	case makeDir:
		if err := os.MkdirAll(s.point, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", s.point, err)
		}
	case mountNew:
		if err := unix.Mount(s.kind, s.point, s.kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", s.kind, s.point, err)
		}
	case remountWritable:
		// MS_BIND: the flags of this mount alone, not of the file system, which the node shares.
		if err := unix.Mount("", s.point, "", unix.MS_REMOUNT|unix.MS_BIND|keep(s.flags), ""); err != nil {
			return fmt.Errorf("remount %s writable: %w", s.point, err)
		}
	}
	return nil
}

// keep translates the options that a remount would otherwise drop.
func keep(options []string) uintptr {
	known := map[string]uintptr{
		"nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
		"relatime": unix.MS_RELATIME, "noatime": unix.MS_NOATIME,
	}
	var flags uintptr
	for _, o := range options {
		flags |= known[o]
	}
	return flags
}
