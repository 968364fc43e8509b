package hostile

import (
	"context"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// inEveryMode runs a test with an agent of each mode, and asks the oracle after it.
func inEveryMode(t *testing.T, args []string, test func(t *testing.T, o *oracle, m mode)) {
	t.Helper()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Args: args, Bucket: t.TempDir(), Env: map[string]string{"TOLBOOTH_EXPLAINER": m.explainer}})
			o := newOracle(t, a)
			test(t, o, m)
			o.left(t)
		})
	}
}

// in asks for a mode, and no less.
func (m mode) in(req api.JobRequest) api.JobRequest {
	req.Jail, req.MinGrade = m.jail, m.jail
	return req
}

// python is a job of Python source.
func python(code string, l api.Limits) api.JobRequest {
	return api.JobRequest{Language: "python", Code: code, Limits: l}
}

// begin starts a job that prints "ready" when it has done what the test is about, waits for that, and ends the job with the test.
func begin(t *testing.T, a *harness.Agent, req api.JobRequest) *api.Job {
	t.Helper()
	job, err := a.Client.Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, a, job.ID) })
	for e, err := range a.Client.Events(t.Context(), job.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "stdout" {
			return job
		}
	}
	done, err := a.Client.Get(t.Context(), job.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Fatalf("the job ended before it was ready: %s %q %q", done.Result.Outcome, done.Result.Stdout, done.Result.Stderr)
	return nil
}

// end cancels a job, finished or not, and returns it.
func end(t *testing.T, a *harness.Agent, id string) *api.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*harness.Slow)
	defer cancel()
	if _, err := a.Client.Cancel(ctx, id); err != nil {
		t.Errorf("cancel %s: %v", id, err)
		return nil
	}
	job, err := a.Client.Get(ctx, id, 20*harness.Slow)
	if err != nil || job.Result == nil {
		t.Errorf("%s after its end: %+v, %v", id, job, err)
	}
	return job
}

// quickest is the least time that f takes, of n: what a busy machine adds is left out.
func quickest(n int, f func()) time.Duration {
	least := time.Duration(1<<63 - 1)
	for range n {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least
}
