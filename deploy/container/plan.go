package main

import (
	"fmt"
	"slices"
	"strings"
)

// mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)), with what matters here.
type mount struct {
	root    string // which directory of the file system is mounted
	point   string
	options []string
	kind    string
}

// step is one change of the mount table.
type step struct {
	action action
	point  string
	kind   string // of a new mount
	flags  []string
	why    string
}

type action int

const (
	makeDir action = iota
	mountNew
	remountWritable
)

// readMounts parses mountinfo.
func readMounts(text string) ([]mount, error) {
	var mounts []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 1 {
			return nil, fmt.Errorf("parse mountinfo: line %q", line)
		}
		mounts = append(mounts, mount{root: l[3], point: l[4], options: strings.Split(l[5], ","), kind: r[0]})
	}
	return mounts, nil
}

// plan lists what has to change, in order. A container that is as it should be, a privileged one for instance, gives an
// empty list.
func plan(mounts []mount) []step {
	return append(planProc(mounts), planCgroups(mounts)...)
}

// planProc wants a /proc with nothing over it. mount_too_revealing() in the kernel's fs/namespace.c refuses a new proc in
// a user namespace unless a whole one is visible already.
func planProc(mounts []mount) []step {
	for _, m := range mounts {
		masked := strings.HasPrefix(m.point, "/proc/")
		readOnly := m.point == "/proc" && slices.Contains(m.options, "ro")
		if masked || readOnly {
			return []step{{mountNew, "/proc", "proc", nil, "the runtime masks parts of /proc, so jails could not have one"}}
		}
	}
	return nil
}

// planCgroups wants every hierarchy writable, and a v2 one: on hosts with v1 controllers runtimes leave it out.
func planCgroups(mounts []mount) []step {
	const root, unified = "/sys/fs/cgroup", "/sys/fs/cgroup/unified"
	var steps []step
	hasV2 := false
	for _, m := range mounts {
		hierarchy := m.kind == "cgroup" || m.kind == "cgroup2"
		hasV2 = hasV2 || m.kind == "cgroup2"
		if (hierarchy || m.point == root) && slices.Contains(m.options, "ro") {
			steps = append(steps, step{remountWritable, m.point, "", m.options, "jails need control groups of their own"})
		}
	}
	if !hasV2 {
		steps = append(steps,
			step{makeDir, unified, "", nil, "mount point of cgroup v2"},
			step{mountNew, unified, "cgroup2", nil, "no cgroup v2 hierarchy is mounted, and egress rules attach to one"})
	}
	return steps
}
