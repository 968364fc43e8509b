package socket

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// answerWithin bounds the 99th percentile of answers while a job takes all it may. An agent that wakes up beside busy programs has a
// processor within milliseconds: 99 of 100 answers came within 8 ms with 50 other programs wanting this machine's two processors. One
// that waits for memory of the job's, for its disk, or for a lock that is held while the job is looked at, waits as long as that takes.
var answerWithin = harness.Slow / 2

// TestAgentAnswersBesideABusyJob (P27): 64 processes of a job keep every processor busy, hold nearly all the memory that they may, and
// write files that make the kernel look for more. Whoever asks the agent meanwhile is answered.
func TestAgentAnswersBesideABusyJob(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	const limit = 288 << 20
	const greedy = `
import os
for n in range(63):
    if os.fork() == 0: break
else:
    held = b"x" * (200 << 20)
    print("ready", flush=True)
    while True:
        with open("file", "wb") as f:
            for _ in range(64): f.write(bytes(1 << 20))
while True: pass
`
	req := code(greedy, api.Limits{CPUs: 2, Memory: limit, Wall: api.Duration(600 * harness.Slow)})
	req.ID = "greedy"
	if _, err := a.Client.Start(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for e, err := range a.Client.Events(t.Context(), req.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if output(t, e) == "ready\n" {
			break
		}
	}
	var took []time.Duration
	for range 200 {
		asked := time.Now()
		if _, err := a.Client.List(t.Context(), client.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(asked))
		time.Sleep(harness.Slow / 100)
	}
	slices.Sort(took)
	t.Logf("half of the answers within %s, 99 of 100 within %s", took[99], took[197])
	if took[197] > answerWithin {
		t.Errorf("99 of 100 answers took up to %s, want %s", took[197], answerWithin)
	}
	job, err := a.Client.Cancel(t.Context(), req.ID)
	if err != nil || job.Result == nil {
		t.Fatalf("%+v %v", job, err)
	}
	if u := job.Result.Usage; job.Result.Outcome != api.OutcomeCancelled {
		t.Errorf("%s %s: %+v", job.Result.Outcome, job.Result.Detail, u)
	}
	if u := job.Result.Usage; u.MemoryPeakBytes < limit/4*3 || u.PidsPeak < 64 {
		t.Errorf("the job was not as greedy as it should be: %+v", u)
	}
}

// TestAdmissionIsExact (P32): of 200 jobs that are sent at the same moment to an agent with room for two and a queue of ten, twelve are
// taken. The others are told what is full and when to come back, and none of them is known to the agent.
func TestAdmissionIsExact(t *testing.T) {
	a := harness.Start(t, harness.Options{Args: []string{"--max-jobs", "2", "--queue", "10"}})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.Socket)
	}
	sender := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	var mu sync.Mutex
	var accepted []string // guarded by mu
	refused := 0          // guarded by mu
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			<-start
			id := fmt.Sprint("crowd-", i)
			resp, err := sender.Post("http://tolbooth/v1/jobs", "application/json", strings.NewReader(`{"id":"`+id+`","command":["sleep","7198"],"wait":false}`))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			mu.Lock()
			defer mu.Unlock()
			switch resp.StatusCode {
			case http.StatusAccepted, http.StatusCreated:
				accepted = append(accepted, id)
			case http.StatusTooManyRequests:
				refused++
				var p api.Problem
				after, notNumber := strconv.Atoi(resp.Header.Get("Retry-After"))
				if err != nil || json.Unmarshal(body, &p) != nil || notNumber != nil || after < 1 || p.RetryAfterMS < 1 || p.Class != api.ClassCapacity || !strings.Contains(p.Detail, "2") || !strings.Contains(p.Detail, "10") {
					t.Errorf("refused with Retry-After %q: %s", resp.Header.Get("Retry-After"), body)
				}
			default:
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
	close(start)
	wg.Wait()
	if len(accepted) != 12 || refused != 188 {
		t.Errorf("%d were taken and %d told to come back, want 12 and 188", len(accepted), refused)
	}
	known, err := a.Client.List(t.Context(), client.ListOptions{Limit: 100})
	if err != nil || len(known.Items) != len(accepted) {
		t.Errorf("the agent knows of %+v, %v", known, err)
	}
	for _, id := range accepted {
		if _, err := a.Client.Cancel(context.Background(), id); err != nil {
			t.Error(err)
		}
	}
}
