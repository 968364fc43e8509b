package real

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// footprint is what an agent takes of its node when it is at rest.
type footprint struct {
	harness.Objects
	Memory  int64 // resident, bytes
	Threads int64
	State   int64 // bytes on disk in the state directory, the audit log apart: it grows by a line a job until it is rotated
}

func footprintOf(t *testing.T, a *harness.Agent) footprint {
	t.Helper()
	f := footprint{Objects: a.Objects(), Memory: statusField(t, a.PID, "VmRSS") << 10, Threads: statusField(t, a.PID, "Threads")}
	err := filepath.WalkDir(a.State, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				if !strings.HasPrefix(d.Name(), "audit.log") {
					f.State += info.Size()
				}
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // old records are removed meanwhile
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func statusField(t *testing.T, pid int, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			var n int64
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatalf("read %s of the agent: %v", name, err)
			}
			return n
		}
	}
	t.Fatalf("the agent's status has no %s", name)
	return 0
}

// assertFlat holds a later footprint against an earlier one. The room is what a garbage collector and idle connections
// take at random; what grows by only 2 KB a job is over it after 10,000 jobs.
func assertFlat(t *testing.T, before, after footprint) {
	t.Helper()
	for _, c := range []struct {
		what               string
		before, after, may int64
	}{
		{"resident memory", before.Memory, after.Memory, 8 << 20},
		{"threads", before.Threads, after.Threads, 4},
		{"state directory", before.State, after.State, 256 << 10},
		{"descriptors", int64(before.Descriptors), int64(after.Descriptors), 2},
		{"processes", int64(before.Processes), int64(after.Processes), 0},
		{"cgroups", int64(before.Cgroups), int64(after.Cgroups), 0},
		{"links", int64(before.Links), int64(after.Links), 0},
		{"network namespaces", int64(before.Netns), int64(after.Netns), 0},
		{"mounts", int64(before.Mounts), int64(after.Mounts), 0},
		{"working directories", int64(before.RunDirs), int64(after.RunDirs), 0},
	} {
		if c.after > c.before+c.may {
			t.Errorf("%s grew from %d to %d in the second half", c.what, c.before, c.after)
		}
	}
}
