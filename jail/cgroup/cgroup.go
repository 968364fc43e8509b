package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Group names the directories of one job's control group, one per controller. It is plain data: the agent makes it, the
// warden uses it. On a pure v2 host all fields but Unified are empty and every controller is at Unified. On a hybrid
// host a controller whose field is empty is missing.
type Group struct {
	Unified string `json:"unified"`         // v2 directory: kill, freeze, CPU time, membership by fd, BPF; and all controllers on pure v2
	Memory  string `json:"memory,omitzero"` // v1
	Pids    string `json:"pids,omitzero"`   // v1
	CPU     string `json:"cpu,omitzero"`    // v1 (cfs quota)
}

// Limits of one group. Zero means no limit.
type Limits struct {
	MemoryBytes int64
	Pids        int64
	CPUs        float64 // CPUs' worth of time per second
}

// Usage read from a group.
type Usage struct {
	CPU             time.Duration
	MemoryPeakBytes int64 // a lower bound on v2 before kernel 5.19, which has no peak: what is in use now, or the limit after an OOM kill
	PidsPeak        int64 // 0 before kernel 6.1, which does not count it
	OOMKills        int64 // processes of this group that the kernel killed for lack of memory
	PidsRefused     int64 // forks refused by the pids limit
}

// dirs are the v1 directories that are in use.
func (g Group) v1() []string {
	var dirs []string
	for _, d := range []string{g.Memory, g.Pids, g.CPU} {
		if d != "" && !slices.Contains(dirs, d) { // controllers mounted together share a directory
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// all are the directories in use, v2 first.
func (g Group) all() []string { return append([]string{g.Unified}, g.v1()...) }

// child is the group called name below g.
func (g Group) child(name string) Group {
	join := func(dir string) string {
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, name)
	}
	return Group{Unified: join(g.Unified), Memory: join(g.Memory), Pids: join(g.Pids), CPU: join(g.CPU)}
}

// hybrid reports whether any controller of g sits on v1.
func (g Group) hybrid() bool { return len(g.v1()) > 0 }

// controller is the directory where the named controller of g is driven; empty: it is missing.
func (g Group) controller(v1 string) string {
	if g.hybrid() {
		return v1
	}
	return g.Unified
}

// DirFD opens the v2 directory, for a clone into it and for attaching BPF programs. The caller closes it.
func (g Group) DirFD() (*os.File, error) {
	fd, err := unix.Open(g.Unified, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open cgroup %s: %w", g.Unified, err)
	}
	return os.NewFile(uintptr(fd), g.Unified), nil
}
