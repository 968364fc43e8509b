package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// homeSuffix marks the group that the agent moves to on pure v2. It is no child of the parent, so that what is attached
// to the parent, egress programs above all, never applies to the agent.
const homeSuffix = ".agent"

// home is where the agent's processes live on pure v2 while it hands controllers down.
type home struct {
	dir     string
	entered bool // the agent is in it
}

// delegate enables the controllers in the own group and in the parent, on pure v2.
func (p *Parent) delegate(mine []int) error {
	var want []string
	for _, name := range controllerNames {
		if p.support.Controllers[name] == "" {
			want = append(want, name)
		}
	}
	have, err := words(p.own.Unified, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	lacking := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return slices.Contains(have, name) })
	if len(lacking) > 0 {
		if err := p.vacate(mine); err != nil {
			return err
		}
		if err := enable(p.own.Unified, "+", lacking); err != nil {
			return err
		}
	}
	return enable(p.group.Unified, "+", want)
}

// vacate moves the agent's processes out of the own group. The root of a hierarchy may hold processes and hand
// controllers down; only there cgroup.type does not exist.
func (p *Parent) vacate(mine []int) error {
	if _, err := read(p.own.Unified, "cgroup.type"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := makeDir(p.home.dir, p.mkdir); err != nil {
		return err
	}
	// A process forked while its parent was being moved stays behind, so look again; three times is plenty, since the
	// agent starts nothing during its own start.
	for range 3 {
		pids, err := readPids(p.own.Unified)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		if err := checkMine(pids, mine); err != nil {
			return fmt.Errorf("%s: %w", p.own.Unified, err)
		}
		for _, pid := range pids {
			if err := write(p.home.dir, "cgroup.procs", strconv.Itoa(pid)); err != nil && processExists(pid) {
				return err
			}
			p.home.entered = true
		}
	}
	return fmt.Errorf("%s: new processes keep appearing", p.own.Unified)
}

// checkMine refuses processes that are neither the agent's own, nor its children, nor vouched for.
func checkMine(pids, mine []int) error {
	var others []string
	for _, pid := range pids {
		if !slices.Contains(mine, pid) && !descends(pid, os.Getpid()) && processExists(pid) {
			others = append(others, fmt.Sprintf("%d (%s)", pid, command(pid)))
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("other processes share the agent's cgroup: %s; cgroup v2 hands controllers down only from a group "+
		"without processes, so give the agent a group of its own (a systemd service with Delegate=yes, or systemd-run --scope "+
		"-p Delegate=yes)", strings.Join(others, ", "))
}

// descends reports whether pid is ancestor, or has it among its parents.
func descends(pid, ancestor int) bool {
	for depth := 0; pid > 1 && depth < 1000; depth++ {
		if pid == ancestor {
			return true
		}
		pid = parentOf(pid)
	}
	return pid == ancestor
}

// parentOf is 0 for a process that is gone or not visible.
func parentOf(pid int) int {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "PPid:"); ok {
			ppid, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				return 0
			}
			return ppid
		}
	}
	return 0
}

func command(pid int) string {
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(comm))
}

// processExists is true for pid 0, which stands for a process outside the pid namespace.
func processExists(pid int) bool {
	if pid == 0 {
		return true
	}
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err == nil
}

// enable writes "+a +b" or "-a -b" to cgroup.subtree_control.
func enable(dir, sign string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	return write(dir, "cgroup.subtree_control", sign+strings.Join(controllers, " "+sign))
}

// undelegate disables what delegate enabled, and moves the agent back: the own group takes processes again once it
// hands nothing down. At the root of the hierarchy, where nobody had to move, what is enabled stays: others may have
// come to rely on it.
func (p *Parent) undelegate() error {
	if err := disableAll(p.group.Unified); err != nil {
		return err
	}
	if !p.home.entered {
		return removeDir(p.home.dir)
	}
	if err := disableAll(p.own.Unified); err != nil {
		return err
	}
	pids, err := readPids(p.home.dir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := write(p.own.Unified, "cgroup.procs", strconv.Itoa(pid)); err != nil && processExists(pid) {
			return err
		}
	}
	p.home.entered = false
	return removeDir(p.home.dir)
}

// disableAll hands nothing down from dir any more. A group that is gone does not.
func disableAll(dir string) error {
	have, err := words(dir, "cgroup.subtree_control")
	if err != nil {
		return ifExists(err)
	}
	return enable(dir, "-", have)
}
