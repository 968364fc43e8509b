package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Support says what this host offers.
type Support struct {
	Version     string            // v2, or hybrid: some controllers on v1
	Controllers map[string]string // memory, pids, cpu, kill, freeze: empty when it works, else why it is missing
}

// Missing lists what does not work, as "name: why", in order of name.
func (s Support) Missing() []string {
	var list []string
	for name, why := range s.Controllers {
		if why != "" {
			list = append(list, name+": "+why)
		}
	}
	slices.Sort(list)
	return list
}

// Probe says what this host offers to the calling process, by making a group in each hierarchy and removing it again.
// It moves no process and enables no controller, so on pure v2 a controller counts as working when it is delegated.
func Probe() (Support, error) {
	o, err := readOwn()
	if err != nil {
		return Support{}, err
	}
	g := o.child(fmt.Sprintf("tb-probe-%d", os.Getpid()))
	if err := makeDirs(&g, o.missing, mkdir); err != nil {
		return Support{}, err
	}
	s, err := o.support(g)
	return s, errors.Join(err, g.Remove())
}

// support judges the host by the group g below the own one.
func (o own) support(g Group) (Support, error) {
	s := Support{Version: "v2", Controllers: map[string]string{}}
	for _, name := range controllerNames {
		s.Controllers[name] = o.missing[name]
	}
	if g.hybrid() || len(o.missing) > 0 {
		s.Version = "hybrid"
	} else {
		text, err := read(o.Unified, "cgroup.controllers")
		if err != nil {
			return s, err
		}
		for _, name := range controllerNames {
			if !slices.Contains(strings.Fields(text), name) {
				s.Controllers[name] = fmt.Sprintf("not delegated to %s (its parent's cgroup.subtree_control lacks it; under systemd: Delegate=yes)", o.Unified)
			}
		}
	}
	s.Controllers["kill"], s.Controllers["freeze"] = "", ""
	if err := unix.Access(g.Unified+"/cgroup.kill", unix.W_OK); err != nil {
		s.Controllers["kill"] = "no cgroup.kill before kernel 5.14: groups are frozen and signalled instead"
	}
	if err := unix.Access(g.Unified+"/cgroup.freeze", unix.W_OK); err != nil {
		s.Controllers["freeze"] = "no cgroup.freeze: " + err.Error()
	}
	return s, nil
}

// readOwn is findOwn for the calling process.
func readOwn() (own, error) {
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return own{}, err
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return own{}, err
	}
	return findOwn(string(cgroups), string(mountinfo))
}

// makeDirs makes the directories of g. Without the v2 one there is no group; a v1 one that cannot be made is noted in
// missing and dropped from g.
func makeDirs(g *Group, missing map[string]string, mkdir func(string) error) error {
	if err := makeDir(g.Unified, mkdir); err != nil {
		return err
	}
	for _, name := range controllerNames {
		dir := g.field(name)
		if *dir == "" {
			continue
		}
		if err := makeDir(*dir, mkdir); err != nil {
			missing[name] = err.Error()
			*dir = ""
		}
	}
	return nil
}

// makeDir makes one group; one that is there already will do.
func makeDir(dir string, mkdir func(string) error) error {
	err := mkdir(dir)
	switch {
	case err == nil || errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("mkdir %s: %w: the cgroup file system is mounted read-only here; the agent needs it writable (privileged container, or a writable mount of /sys/fs/cgroup)", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("mkdir %s: %w: the agent needs root or a delegated cgroup", dir, err)
	}
	return fmt.Errorf("mkdir %s: %w", dir, err)
}

func mkdir(dir string) error { return unix.Mkdir(dir, 0o755) }
