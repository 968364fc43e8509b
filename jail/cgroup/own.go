package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The controllers that limit a job. CPU time used comes from the v2 tree on every host.
var controllerNames = [...]string{"memory", "pids", "cpu"}

// mount is one mounted cgroup hierarchy.
type mount struct {
	unified     bool
	root        string   // which part of the hierarchy is mounted
	point       string   // where
	controllers []string // v1
	writable    bool
}

// own is the calling process's own group: its directory in every hierarchy that matters.
type own struct {
	Group
	missing map[string]string // controller: why it cannot be used. Pure v2 is judged later, by what is enabled
}

// findOwn works out the process's own group from the text of /proc/self/cgroup and /proc/self/mountinfo.
func findOwn(cgroups, mountinfo string) (own, error) {
	mounts, err := parseMounts(mountinfo)
	if err != nil {
		return own{}, err
	}
	o := own{missing: map[string]string{}}
	for line := range strings.Lines(cgroups) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		list, path, ok := strings.Cut(rest, ":")
		if !ok {
			return own{}, fmt.Errorf("parse /proc/self/cgroup: line %q", line)
		}
		if id == "0" && list == "" {
			o.Unified, err = ownDir(mounts, path, func(m mount) bool { return m.unified })
			if err != nil {
				return own{}, fmt.Errorf("find own group on cgroup v2: %w", err)
			}
			continue
		}
		for _, name := range strings.Split(list, ",") {
			if !slices.Contains(controllerNames[:], name) {
				continue
			}
			dir, err := ownDir(mounts, path, func(m mount) bool { return slices.Contains(m.controllers, name) })
			if err != nil {
				o.missing[name] = err.Error() + " (v1)"
				continue
			}
			*o.field(name) = dir
		}
	}
	if o.Unified == "" {
		return own{}, fmt.Errorf("no cgroup v2 hierarchy: mount one (mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified)")
	}
	if o.hybrid() || len(o.missing) > 0 {
		for _, name := range controllerNames {
			if *o.field(name) == "" && o.missing[name] == "" {
				o.missing[name] = "no v1 hierarchy has it, though others are on v1"
			}
		}
	}
	return o, nil
}

// field is where g keeps the v1 directory of a controller.
func (g *Group) field(controller string) *string {
	switch controller {
	case "memory":
		return &g.Memory
	case "pids":
		return &g.Pids
	default:
		return &g.CPU
	}
}

// ownDir is where the group called path is visible: below a mount whose root contains it. A writable mount is
// preferred: containers have the hierarchy mounted read-only at its usual place, and sometimes writable at another.
func ownDir(mounts []mount, path string, match func(mount) bool) (string, error) {
	why := "not mounted"
	dir := ""
	for _, m := range mounts {
		if !match(m) {
			continue
		}
		// In a cgroup namespace of its own, a mount of something above that namespace's root has a root such as /../..,
		// and how the own group is called below it cannot be told.
		rel, err := filepath.Rel(m.root, path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") || strings.HasPrefix(m.root, "/..") || strings.HasPrefix(path, "/..") {
			why = fmt.Sprintf("mounted at %s, which does not show the own group %s", m.point, path)
			continue
		}
		at := filepath.Join(m.point, rel)
		if m.writable {
			return at, nil
		}
		if dir == "" {
			dir = at
		}
	}
	if dir == "" {
		return "", fmt.Errorf("%s", why)
	}
	return dir, nil
}

// parseMounts picks the cgroup mounts out of mountinfo (proc_pid_mountinfo(5)).
func parseMounts(mountinfo string) ([]mount, error) {
	var mounts []mount
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 1 {
			return nil, fmt.Errorf("parse mountinfo: line %q", line)
		}
		if r[0] != "cgroup" && r[0] != "cgroup2" {
			continue
		}
		m := mount{unified: r[0] == "cgroup2", root: unescape(l[3]), point: unescape(l[4])}
		super := strings.Split(r[len(r)-1], ",")
		m.writable = slices.Contains(strings.Split(l[5], ","), "rw") && slices.Contains(super, "rw")
		if !m.unified {
			m.controllers = super
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// unescape undoes mountinfo's octal escapes for space, tab, newline and backslash.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
