package hostile

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"context"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestBusyThreads is E15: 64 busy threads get half a processor, see one that counts as one, and keep nobody from asking the agent.
func TestBusyThreads(t *testing.T) {
	const burn = `
import os, threading, time
print("ready", os.cpu_count(), len(os.sched_getaffinity(0)), os.popen("nproc").read().strip(), flush=True)
for _ in range(63):
    if os.fork() == 0: break
while True: pass
`
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		wall := 4 * harness.Slow
		req := m.in(python(burn, api.Limits{CPUs: 0.5, Wall: api.Duration(wall)}))
		job := begin(t, o.agent, req)
		var slowest time.Duration
		for start := time.Now(); time.Since(start) < wall-harness.Slow; time.Sleep(20 * time.Millisecond) {
			asked := time.Now()
			if h, err := o.agent.Client.Health(t.Context()); err != nil || h.Status == "failing" {
				t.Fatalf("health: %+v, %v", h, err)
			}
			slowest = max(slowest, time.Since(asked))
		}
		if slowest > harness.Slow/5 {
			t.Errorf("the slowest answer took %s", slowest)
		}
		done, err := o.agent.Client.Get(t.Context(), job.ID, 10*harness.Slow)
		if err != nil || done.Result == nil {
			t.Fatalf("%+v, %v", done, err)
		}
		res := done.Result
		if res.Outcome != api.OutcomeWallLimit || res.Stdout != "ready 1 1 1\n" {
			t.Errorf("%s %q: a job with half a processor counts others than one", res.Outcome, res.Stdout)
		}
		if share := float64(res.Usage.CPUMS) / float64(res.Usage.WallMS); share > 0.6 || share < 0.2 {
			t.Errorf("used %.2f processors of 0.5: %+v", share, res.Usage)
		}
	})
}

// TestCancelledAtOnce is E16: a hundred jobs, running and waiting, that are cancelled at the same moment all end as cancelled and
// leave nothing.
func TestCancelledAtOnce(t *testing.T) {
	inEveryMode(t, []string{"--max-jobs", "8", "--queue", "92"}, func(t *testing.T, o *oracle, m mode) {
		no := false
		var ids []string
		for range 100 {
			job, err := o.agent.Client.Start(t.Context(), m.in(api.JobRequest{Command: []string{"sh", "-c", "trap '' TERM; (setsid sleep 7195 &); sleep 7195"}, Wait: &no}))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, job.ID)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for _, id := range ids {
			for range 2 { // and by two clients each
				wg.Go(func() {
					job, err := o.agent.Client.Cancel(t.Context(), id)
					if err != nil || job.Result == nil || job.Result.Outcome != api.OutcomeCancelled {
						t.Errorf("%s: %v %+v", id, err, job)
					}
				})
			}
		}
		wg.Wait()
		if took := time.Since(start); took > 20*harness.Slow {
			t.Errorf("took %s", took)
		}
		if left := harness.Find("sleep\x007195"); len(left) != 0 {
			t.Errorf("processes left: %v", left)
		}
	})
}

// TestManyTinyJobs is E16: more tiny jobs than the node takes at once are either run or answered 429 with a time to come back, and
// those that come back are all run.
func TestManyTinyJobs(t *testing.T) {
	const jobs = 200
	inEveryMode(t, []string{"--max-jobs", "4", "--queue", "16"}, func(t *testing.T, o *oracle, m mode) {
		var mu sync.Mutex
		refusals := 0
		var slowest time.Duration
		var wg sync.WaitGroup
		for i := range jobs {
			wg.Go(func() {
				for {
					asked := time.Now()
					status, header, body := post(t, o.agent, fmt.Sprintf(`{"command":["echo","%d"],"jail":"%s"}`, i, m.jail))
					if status == http.StatusTooManyRequests {
						after, err := strconv.Atoi(header.Get("Retry-After"))
						if err != nil || after < 1 || after > 30 || !strings.Contains(body, `"retry_after_ms":`) {
							t.Errorf("429 with Retry-After %q: %s", header.Get("Retry-After"), body)
							return
						}
						mu.Lock()
						refusals++
						mu.Unlock()
						time.Sleep(harness.Slow / 5)
						continue
					}
					if status != http.StatusOK || !strings.Contains(body, fmt.Sprintf(`"stdout":"%d\n"`, i)) {
						t.Errorf("%d: %s", status, body)
					}
					mu.Lock()
					slowest = max(slowest, time.Since(asked))
					mu.Unlock()
					return
				}
			})
		}
		wg.Wait()
		if refusals == 0 {
			t.Error("nobody was asked to come back")
		}
		if slowest > 10*harness.Slow {
			t.Errorf("an admitted job took %s", slowest)
		}
	})
}

// post sends one job as it is and returns the answer as it is: the Go client keeps the header of a refusal to itself.
func post(t *testing.T, a *harness.Agent, body string) (int, http.Header, string) {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", a.Socket)
	}
	c := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	resp, err := c.Post("http://tolbooth/v1/jobs", "application/json", strings.NewReader(body))
	if err != nil {
		t.Errorf("post: %v", err)
		return 0, nil, ""
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Errorf("read the answer: %v", err)
	}
	return resp.StatusCode, resp.Header, b.String()
}
