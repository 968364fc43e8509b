package real

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// jobsEnv is how many jobs TestManyJobs runs, and twice what TestManyNodeJobs does; `make soak` sets it to 10,000.
const jobsEnv = "TOLBOOTH_SOAK_JOBS"

// soakJobs is what the environment asks for, else usual.
func soakJobs(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv(jobsEnv)
	if text == "" {
		return usual
	}
	jobs, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", jobsEnv, err)
	}
	return jobs
}

// threads is P03: threads and calls that a filter which is put together anew for each run refuses to one run in a hundred.
var threads = api.JobRequest{Command: []string{"python3", "-c", `
import threading, os
for _ in range(20): threading.Thread(target=os.sched_getaffinity, args=(0,)).start()
r, w = os.pipe2(0)
print(os.stat('/').st_mode > 0)`}}

// TestManyJobs (P29) runs 2,000 small jobs, 16 at a time: all succeed, the node is as it was before, and the second half costs
// nothing that the first half did not: no memory, descriptor or thread of the agent, no disk, no kernel object.
func TestManyJobs(t *testing.T) {
	hosttest.NotSlow(t, "2,000 process trees take minutes under emulation")
	jobs := soakJobs(t, 2000)
	const atOnce = 16
	// Records of finished jobs are kept, up to a number that is reached long before the middle.
	a := harness.Start(t, harness.Options{Args: []string{"--max-jobs", "16", "--retain-jobs", "200"}})
	for range 4 * atOnce { // let everything that is made once a slot be made
		a.Sh("true")
	}
	before := a.Objects()
	runMany(t, a, threads, "True\n", jobs/2, atOnce)
	middle := footprintOf(t, a)
	runMany(t, a, threads, "True\n", jobs-jobs/2, atOnce)
	end := footprintOf(t, a)
	t.Logf("after %d jobs %+v\nafter %d jobs %+v", jobs/2, middle, jobs, end)
	assertFlat(t, middle, end)
	if diff := a.WaitObjects(before, 10*time.Second); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
	instance := a.Instance()
	a.Stop()
	assertNothingLeft(t, instance)
}

// runMany runs one request many times. Each run prints the same, and nothing is refused.
func runMany(t *testing.T, a *harness.Agent, req api.JobRequest, want string, jobs, atOnce int) {
	t.Helper()
	work := make(chan int)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := range work {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				job, err := a.Client.Run(ctx, req)
				cancel()
				if err != nil || job.Result.Outcome != api.OutcomeOK || job.Result.Stdout != want || len(job.Result.Denials) != 0 {
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
