package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

func TestPostWaits(t *testing.T) {
	w := start(t, nil)
	j := w.post(`{"command":["print","grün\n","x"],"labels":{"tenant":"acme"}}`)
	if j.State != api.StateFinished || j.Result.Outcome != api.OutcomeOK || j.Result.Stdout != "grün\nx" || j.Result.Encoding != "utf-8" || *j.Result.ExitCode != 0 {
		t.Errorf("%+v %+v", j, j.Result)
	}
	if j.Labels["tenant"] != "acme" || j.FinishedAt == nil || j.FinishedAt.Before(j.CreatedAt) || len(j.ID) < 20 {
		t.Errorf("%+v", j)
	}
	r := w.do("GET", "/v1/jobs/"+j.ID, "")
	for _, want := range []string{`"denials":[]`, `"outputs":[]`, `"limit":null`, `"signal":null`, `"snapshot":null`, `"missing":[]`} {
		if !strings.Contains(string(r.body), want) {
			t.Errorf("lacks %s: %s", want, r.body)
		}
	}
	raw := w.post(`{"command":["raw"]}`)
	if raw.Result.Encoding != "base64" || raw.Result.Stdout != "Yf8=" || raw.Result.StdoutBytes != 2 {
		t.Errorf("%+v", raw.Result)
	}
	if got := w.post(`{"command":["code"]}`).Result; got.Outcome != api.OutcomeExit || *got.ExitCode != 3 {
		t.Errorf("%+v", got)
	}
	if got := w.post(`{"command":["nostart"]}`).Result; got.Outcome != api.OutcomeStartFailed || got.Detail == "" || got.ExitCode != nil {
		t.Errorf("%+v", got)
	}
}

func TestRunnerPanicEndsOneJob(t *testing.T) {
	w := start(t, nil)
	r := w.do("POST", "/v1/jobs", `{"command":["panic"]}`)
	j := w.job(r, 200)
	if j.Result.Outcome != api.OutcomeAgentLost || strings.Contains(string(r.body), "secret") {
		t.Errorf("%s", r.body)
	}
	if w.post(`{"command":["print","x"]}`).Result.Outcome != api.OutcomeOK {
		t.Error("the next job does not run")
	}
	if w.server.jobs.Capacity().Running != 0 {
		t.Error("the place was not given back")
	}
}

func TestLargeResultIsReadFromItsRecord(t *testing.T) {
	w := start(t, nil)
	j := w.post(`{"id":"big","command":["spam"]}`)
	if len(j.Result.Stdout) != 1<<20 || !j.Result.Truncated {
		t.Errorf("%d bytes, truncated %v", len(j.Result.Stdout), j.Result.Truncated)
	}
	again := w.job(w.do("GET", "/v1/jobs/big", ""), 200)
	if again.Result.Stdout != j.Result.Stdout {
		t.Error("the job reads differently the second time")
	}
}

func TestSameIDSameJob(t *testing.T) {
	w := start(t, nil)
	const body = `{"id":"once","command":["wait"],"env":{"A":"1","B":"2"},"wait":false}`
	w.begin(body)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			r, err := w.try("POST", "/v1/jobs", `{"wait":false,"env":{"B":"2","A":"1"},"command":["wait"],"id":"once"}`)
			if err != nil || r.status != 202 {
				t.Errorf("%d %v %s", r.status, err, r.body)
			}
		})
	}
	wg.Wait()
	w.problem(w.do("POST", "/v1/jobs", `{"id":"once","command":["wait"],"wait":false}`), "conflict", "id")
	close(w.runner.letGo)
	// Waiting is not part of what is asked for.
	if j := w.post(`{"id":"once","command":["wait"],"env":{"A":"1","B":"2"}}`); j.Result.Outcome != api.OutcomeOK {
		t.Errorf("%+v", j.Result)
	}
	if got := w.runner.started(); len(got) != 1 {
		t.Errorf("ran %v", got)
	}
}

func TestDroppedClientLeavesItsJob(t *testing.T) {
	w := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", w.base+"/v1/jobs", strings.NewReader(`{"id":"left","command":["wait"]}`))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := w.client.Do(req); err == nil {
			resp.Body.Close()
			t.Error("the job ended")
		}
	}()
	eventually(t, "the job is there", func() bool { return w.do("GET", "/v1/jobs/left", "").status == 200 })
	w.running("left")
	cancel()
	<-gone
	time.Sleep(20 * time.Millisecond)
	close(w.runner.letGo)
	if j := w.job(w.do("GET", "/v1/jobs/left?wait=10s", ""), 200); j.Result == nil || j.Result.Outcome != api.OutcomeOK {
		t.Errorf("%+v", j)
	}
}

func TestLongPoll(t *testing.T) {
	w := start(t, nil)
	w.begin(`{"id":"slow","command":["wait"],"wait":false}`)
	began := time.Now()
	if j := w.job(w.do("GET", "/v1/jobs/slow?wait=50ms", ""), 200); j.State == api.StateFinished || time.Since(began) < 50*time.Millisecond {
		t.Errorf("%v after %v", j.State, time.Since(began))
	}
	done := make(chan response, 1)
	go func() {
		r, err := w.try("GET", "/v1/jobs/slow?wait=30s", "")
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	time.Sleep(20 * time.Millisecond)
	close(w.runner.letGo)
	if j := w.job(<-done, 200); j.State != api.StateFinished || j.Result == nil {
		t.Errorf("%+v", j)
	}
	for _, bad := range []string{"wait=1", "wait=-1s", "wait=2h", "wiat=1s"} {
		if r := w.do("GET", "/v1/jobs/slow?"+bad, ""); r.status != 400 {
			t.Errorf("%s: %d", bad, r.status)
		}
	}
}

func TestStormTakesExactlyWhatFits(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxJobs, c.Queue = 2, 10 })
	var accepted, full atomic.Int64
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			r, err := w.try("POST", "/v1/jobs", `{"command":["wait"],"wait":false}`)
			switch {
			case err != nil:
				t.Error(err)
			case r.status == 202:
				accepted.Add(1)
			case r.status == 429:
				full.Add(1)
				var p api.Problem
				seconds, _ := strconv.Atoi(r.header.Get("Retry-After"))
				if err := json.Unmarshal(r.body, &p); err != nil || p.Class != "capacity" || p.RetryAfterMS < 1 || seconds < 1 {
					t.Errorf("%s, Retry-After %d", r.body, seconds)
				}
			default:
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	wg.Wait()
	if accepted.Load() != 12 || full.Load() != 188 {
		t.Errorf("%d accepted, %d refused; want 12 and 188", accepted.Load(), full.Load())
	}
	if c := w.server.jobs.Capacity(); c.Running != 2 || c.Queued != 10 {
		t.Errorf("%+v", c)
	}
	close(w.runner.letGo)
	eventually(t, "all ran", func() bool { return len(w.runner.started()) == 12 && w.server.jobs.Capacity().Running == 0 })
}

func TestQueueIsInOrder(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxJobs = 1 })
	var want []string
	for i := range 6 {
		id := fmt.Sprintf("job-%d", i)
		want = append(want, id)
		w.begin(fmt.Sprintf(`{"id":%q,"command":["wait"],"wait":false}`, id))
	}
	if j := w.job(w.do("GET", "/v1/jobs/job-5", ""), 200); j.State != api.StateQueued {
		t.Error(j.State)
	}
	time.Sleep(30 * time.Millisecond)
	close(w.runner.letGo)
	last := w.job(w.do("GET", "/v1/jobs/job-5?wait=10s", ""), 200)
	if got := w.runner.started(); !slices.Equal(got, want) {
		t.Errorf("ran %v", got)
	}
	if last.Result.Timings.Queue < 20_000 {
		t.Errorf("queued for %d µs only", last.Result.Timings.Queue)
	}
}

func TestDelete(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxJobs = 1 })
	w.begin(`{"id":"runs","command":["wait"],"wait":false}`)
	w.running("runs")
	w.begin(`{"id":"waits","command":["wait"],"wait":false}`)
	if j := w.job(w.do("DELETE", "/v1/jobs/waits", ""), 200); j.Result.Outcome != api.OutcomeCancelled || !strings.Contains(j.Result.Detail, "while it waited") || j.Result.Timings.Queue == 0 {
		t.Errorf("%+v", j.Result)
	}
	if j := w.job(w.do("DELETE", "/v1/jobs/runs", ""), 200); j.Result.Outcome != api.OutcomeCancelled || j.Result.Detail != errCancelled.Error() {
		t.Errorf("%+v", j.Result)
	}
	if j := w.job(w.do("DELETE", "/v1/jobs/runs", ""), 200); j.Result.Outcome != api.OutcomeCancelled {
		t.Errorf("deleted again: %+v", j.Result)
	}
	if got := w.runner.started(); !slices.Equal(got, []string{"runs"}) {
		t.Errorf("ran %v", got)
	}
	if c := w.server.jobs.Capacity(); c.Running != 0 || c.Queued != 0 {
		t.Errorf("%+v", c)
	}
}

func TestSignal(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxJobs = 1 })
	w.begin(`{"id":"a","command":["wait"],"wait":false}`)
	w.running("a")
	w.begin(`{"id":"b","command":["wait"],"wait":false}`)
	w.problem(w.do("POST", "/v1/jobs/a/signal", `{"signal":"15"}`), "invalid", "signal")
	w.problem(w.do("POST", "/v1/jobs/a/signal", `{"signal":"SIGNOPE"}`), "invalid", "signal")
	w.problem(w.do("POST", "/v1/jobs/a/signal", `{"sig":"SIGTERM"}`), "invalid", "sig")
	w.problem(w.do("POST", "/v1/jobs/a/signal", ``), "invalid", "")
	w.problem(w.do("POST", "/v1/jobs/b/signal", `{"signal":"SIGTERM"}`), "conflict", "")
	w.job(w.do("POST", "/v1/jobs/a/signal", `{"signal":"SIGTERM"}`), 200)
	if j := w.job(w.do("GET", "/v1/jobs/a?wait=10s", ""), 200); j.Result.Outcome != api.OutcomeSignal || *j.Result.Signal != "SIGTERM" {
		t.Errorf("%+v", j.Result)
	}
	w.problem(w.do("POST", "/v1/jobs/a/signal", `{"signal":"SIGTERM"}`), "conflict", "")
}

func TestList(t *testing.T) {
	w := start(t, nil)
	for i := range 7 {
		w.post(fmt.Sprintf(`{"id":"j%d","command":["print"],"labels":{"n":"%d","even":"%v"}}`, i, i, i%2 == 0))
	}
	w.begin(`{"id":"open","command":["wait"],"wait":false}`)
	w.running("open")
	list := func(query string) (ids []string, next string) {
		t.Helper()
		var page api.List[api.Job]
		r := w.do("GET", "/v1/jobs?"+query, "")
		if err := json.Unmarshal(r.body, &page); err != nil || r.status != 200 {
			t.Fatalf("%d %v %s", r.status, err, r.body)
		}
		for _, j := range page.Items {
			ids = append(ids, j.ID)
			if (j.State == api.StateFinished) != (j.Result != nil) {
				t.Errorf("%+v", j)
			}
		}
		if page.NextCursor != nil {
			next = *page.NextCursor
		}
		return ids, next
	}
	for query, want := range map[string]string{
		"":                           "open j6 j5 j4 j3 j2 j1 j0",
		"state=finished&limit=2":     "j6 j5",
		"label=even:true":            "j6 j4 j2 j0",
		"label=even:true&label=n:4":  "j4",
		"label=nothing:1":            "",
		"state=queued":               "",
		"state=finished&label=n:100": "",
	} {
		if ids, _ := list(query); strings.Join(ids, " ") != want {
			t.Errorf("%q: %v, want %s", query, ids, want)
		}
	}
	var all []string
	for cursor := ""; ; {
		ids, next := list("limit=3&cursor=" + cursor)
		all = append(all, ids...)
		if cursor == "" {
			w.post(`{"id":"late","command":["print"]}`) // pages stay as they are
		}
		if next == "" {
			break
		}
		cursor = next
	}
	if got := strings.Join(all, " "); got != "open j6 j5 j4 j3 j2 j1 j0" {
		t.Errorf("pages: %s", got)
	}
	for _, bad := range []string{"state=done", "label=x", "limit=0", "limit=x", "cursor=!", "stat=queued", "state=queued&state=running"} {
		field, _, _ := strings.Cut(bad, "=")
		w.problem(w.do("GET", "/v1/jobs?"+bad, ""), "invalid", field)
	}
	w.problem(w.do("GET", "/v1/jobs?label=%zz", ""), "invalid", "")
	w.problem(w.do("GET", "/v1/jobs/open/events?form=1", ""), "invalid", "form")
	w.problem(w.do("DELETE", "/v1/jobs/open?force=true", ""), "invalid", "force")
	w.problem(w.do("POST", "/v1/jobs/open/signal?x=1", `{"signal":"SIGTERM"}`), "invalid", "x")
	close(w.runner.letGo)
}

// BenchmarkAroundTheRun is what everything outside the run of a job costs: HTTP, admission, record, spool, answer.
func BenchmarkAroundTheRun(b *testing.B) {
	w := start(b, nil)
	for b.Loop() {
		w.post(`{"command":["print","2\n"]}`)
	}
}
