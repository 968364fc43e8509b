package real

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestThousandJobs runs 1,000 small jobs, 16 at a time; all succeed, and the node is as it was before.
func TestThousandJobs(t *testing.T) {
	const jobs, atOnce = 1000, 16
	hosttest.NotSlow(t, "1,000 process trees take minutes under emulation")
	a := harness.Start(t, harness.Options{Args: []string{"--max-jobs", "16"}})
	for range 4 * atOnce { // let everything that is made once a slot be made
		a.Sh("true")
	}
	before := a.Objects()
	work := make(chan int)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := range work {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				job, err := a.Client.Run(ctx, api.JobRequest{Command: []string{"python3", "-c", "print(1+1)"}})
				cancel()
				if err != nil || job.Result.Outcome != api.OutcomeOK || job.Result.Stdout != "2\n" {
					t.Errorf("job %d: %v %+v", i, err, job)
				}
			}
		})
	}
	start := time.Now()
	for i := range jobs {
		work <- i
	}
	close(work)
	wg.Wait()
	t.Logf("%d jobs, %d at a time: %s", jobs, atOnce, time.Since(start).Round(time.Millisecond))
	if diff := a.WaitObjects(before, 10*time.Second); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
	instance := a.Instance()
	a.Stop()
	assertNothingLeft(t, instance)
}

// assertNothingLeft looks for any kernel object that carries a stopped agent's mark.
func assertNothingLeft(t *testing.T, instance string) {
	t.Helper()
	mark := "tb-" + instance
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(path, mark) {
			t.Errorf("cgroup left: %s", path)
		}
		return nil
	})
	for _, glob := range []string{"/sys/fs/bpf/*" + mark + "*", "/proc/[0-9]*/comm"} {
		found, _ := filepath.Glob(glob)
		for _, f := range found {
			if !strings.HasPrefix(f, "/proc/") {
				t.Errorf("left: %s", f)
				continue
			}
			if comm, _ := os.ReadFile(f); strings.HasPrefix(string(comm), "tolbooth-jail") {
				t.Errorf("process left: %s %s", f, comm)
			}
		}
	}
	if b, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(b), mark) {
		t.Error("a mount is left")
	}
}
