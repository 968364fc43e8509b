package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Parent is the group, in every hierarchy, that holds the groups of one agent's jobs.
type Parent struct {
	own     own
	group   Group
	support Support
	home    *home              // pure v2: where the agent went
	mkdir   func(string) error // tests fill in what the kernel would
}

// validName reports whether name is one path element of at most 128 letters, digits, and .-_ except at its start. By hand:
// tolbooth-jail links this package, and compiling a pattern took 0.8 ms at the start of each of a jail's three processes.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
		if !plain && (i == 0 || c != '.' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// OpenParent makes the group name (such as tb-1a2b) below the calling process's own group, or takes it over when
// a former agent left it. Limits set on the own group, a pod's for instance, thus hold for all jobs together.
//
// On pure v2 a group with processes cannot hand controllers down (cgroups(7), "no internal processes"), so the
// calling process and its children move to the sibling group name.agent. Processes in mine, such as the agent's
// supervisor, are moved as well; any other process in the own group makes OpenParent fail and is named.
func OpenParent(name string, mine ...int) (*Parent, error) {
	o, err := readOwn()
	if err != nil {
		return nil, fmt.Errorf("open cgroup parent: %w", err)
	}
	p, err := openParent(o, name, mkdir, mine)
	if err != nil {
		return nil, fmt.Errorf("open cgroup parent: %w", err)
	}
	return p, nil
}

func openParent(o own, name string, mkdir func(string) error, mine []int) (*Parent, error) {
	if !validName(name) {
		return nil, fmt.Errorf("bad group name %.128q", name)
	}
	h := &home{dir: filepath.Join(o.Unified, name+homeSuffix)}
	if filepath.Base(o.Unified) == name+homeSuffix { // a former agent of this name moved us here, or our supervisor
		o.Unified = filepath.Dir(o.Unified)
		h.dir, h.entered = filepath.Join(o.Unified, name+homeSuffix), true
	}
	p := &Parent{own: o, group: o.child(name), mkdir: mkdir}
	if err := makeDirs(&p.group, o.missing, mkdir); err != nil {
		return nil, err
	}
	var err error
	if p.support, err = o.support(p.group); err != nil {
		return nil, errors.Join(err, p.group.Remove())
	}
	if p.support.Version == "v2" {
		p.home = h
		if err := p.delegate(mine); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// Support says what this host offers; a controller that is missing cannot be limited.
func (p *Parent) Support() Support { return p.support }

// Group is the parent itself. BPF programs attached to its v2 directory see all jobs and not the agent.
func (p *Parent) Group() Group { return p.group }

// Create makes the group of one job. It is an error when it exists: what is in it belongs to someone else.
func (p *Parent) Create(name string) (Group, error) {
	if !validName(name) {
		return Group{}, fmt.Errorf("create cgroup: bad group name %.128q", name)
	}
	g := p.group.child(name)
	for i, dir := range g.all() {
		if err := p.mkdir(dir); err != nil {
			errs := []error{fmt.Errorf("create cgroup %s: %w", dir, err)}
			for _, made := range g.all()[:i] {
				errs = append(errs, removeDir(made))
			}
			return Group{}, errors.Join(errs...)
		}
	}
	return g, nil
}

// Children lists the names of the groups below the parent, in any hierarchy.
func (p *Parent) Children() ([]string, error) {
	var names []string
	for _, dir := range p.group.all() {
		found, err := list(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Open returns the group of a job that Create made, in this process or a former one.
func (p *Parent) Open(name string) (Group, error) {
	if !validName(name) {
		return Group{}, fmt.Errorf("open cgroup: bad group name %.128q", name)
	}
	g := p.group.child(name)
	for _, dir := range g.all() {
		if _, err := os.Stat(dir); err != nil {
			return Group{}, fmt.Errorf("open cgroup: %w", err)
		}
	}
	return g, nil
}

// Sweep kills and removes every group below the parent except those named in keep, and returns the names it removed.
func (p *Parent) Sweep(keep ...string) ([]string, error) {
	names, err := p.Children()
	if err != nil {
		return nil, fmt.Errorf("sweep cgroups: %w", err)
	}
	var swept []string
	var errs []error
	for _, name := range names {
		if slices.Contains(keep, name) {
			continue
		}
		if err := p.sweepOne(p.group.child(name)); err != nil {
			errs = append(errs, fmt.Errorf("sweep cgroup %s: %w", name, err))
			continue
		}
		swept = append(swept, name)
	}
	return swept, errors.Join(errs...)
}

// sweepOne also kills what sits in a v1 directory only: a warden that was killed, or hung, between entering and leaving.
func (p *Parent) sweepOne(g Group) error {
	if err := g.Kill(); err != nil {
		return err
	}
	for _, dir := range g.v1() {
		if err := signalMembers(dir); ifExists(err) != nil {
			return err
		}
	}
	return g.Remove()
}

// Close removes the parent and every group below it, and takes the agent back to where it was.
func (p *Parent) Close() error {
	_, err := p.Sweep()
	errs := []error{err}
	if p.home != nil {
		errs = append(errs, p.undelegate())
	}
	for _, dir := range p.group.all() {
		if err := removeDir(dir); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// words splits a control file that is a list of names.
func words(dir, name string) ([]string, error) {
	text, err := read(dir, name)
	return strings.Fields(text), err
}
