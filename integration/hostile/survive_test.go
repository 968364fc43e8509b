package hostile

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestLongLine is E5: bytes of any kind, in one line of 12 MB, are streamed as they are, and one byte a second arrives when it is
// written.
func TestLongLine(t *testing.T) {
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		req := m.in(request(t, attack{file: "e05_line.py"}))
		req.Limits.Output = 16 << 20
		no := false
		req.Wait = &no
		job, err := o.agent.Client.Start(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		var line []byte
		for i := range 256 {
			if i != '\n' {
				line = append(line, byte(i))
			}
		}
		want := strings.Repeat(string(line), 4113*12)
		got := streamed(t, o.agent, job.ID, 0)
		if got != want {
			t.Errorf("%d bytes came, want %d", len(got), len(want))
		}

		req = m.in(python("import os, time\nfor i in range(6): os.write(1, b'%d' % i); time.sleep(0.5)", api.Limits{}))
		req.Wait = &no
		if job, err = o.agent.Client.Start(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		var first, last time.Time
		for e, err := range o.agent.Client.Events(t.Context(), job.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == "stdout" && first.IsZero() {
				first = time.Now()
			}
			last = time.Now()
		}
		if last.Sub(first) < 2*time.Second {
			t.Errorf("the first byte came %s before the end of a program that wrote for 3s", last.Sub(first))
		}
	})
}

// TestDisconnect is E10: a client that goes away in the middle changes nothing for the job; another one finds it by its id and
// replays its events from wherever it wants, the same bytes however often.
func TestDisconnect(t *testing.T) {
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		req := m.in(python("import os, time\nos.write(1, b'x' * 8000)\nfor i in range(60): os.write(1, b'line %d\\n' % i); time.sleep(0.05)", api.Limits{}))
		req.ID = "kept-" + m.jail
		ctx, cancel := context.WithTimeout(t.Context(), harness.Slow)
		if job, err := o.agent.Client.Run(ctx, req); err == nil {
			t.Errorf("the answer came before the client left: %+v", job.Result)
		}
		cancel()
		want := strings.Repeat("x", 8000)
		for i := range 60 {
			want += fmt.Sprintf("line %d\n", i)
		}
		var got string
		next := int64(0)
		for range 20 { // comes and goes
			ctx, cancel := context.WithTimeout(t.Context(), harness.Slow/8)
			for e, err := range o.agent.Client.Events(ctx, req.ID, next) {
				if err != nil {
					break
				}
				if next = e.Seq + 1; e.Type == "stdout" {
					b, err := client.Output(e)
					if err != nil {
						t.Fatal(err)
					}
					got += string(b)
				}
			}
			cancel()
		}
		got += streamed(t, o.agent, req.ID, next)
		if got != want {
			t.Errorf("%d bytes after 20 readers, want %d: …%q", len(got), len(want), got[max(0, len(got)-40):])
		}
		if whole := streamed(t, o.agent, req.ID, 0); whole != want {
			t.Errorf("replay gives %d bytes, want %d", len(whole), len(want))
		}
		job, err := o.agent.Client.Get(t.Context(), req.ID, 10*harness.Slow)
		if err != nil || job.Result == nil || job.Result.Outcome != api.OutcomeOK || job.Result.Stdout != want {
			t.Errorf("%v %+v", err, job)
		}
	})
}

// streamed is what a job writes to stdout from one event on, until its end.
func streamed(t *testing.T, a *harness.Agent, id string, from int64) string {
	t.Helper()
	var out strings.Builder
	for e, err := range a.Client.Events(t.Context(), id, from) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != "stdout" {
			continue
		}
		b, err := client.Output(e)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	return out.String()
}

// TestAgentKilledWithManyJails is E11: the next agent finds every jail of one that was killed, ends it, says so in its record, and
// holds no more of the kernel's objects than one that never had a predecessor.
func TestAgentKilledWithManyJails(t *testing.T) {
	const jails = 20
	state, node := t.TempDir(), harness.NewNetns(t)
	start := func() *harness.Agent {
		return harness.Start(t, harness.Options{State: state, Netns: node, Args: []string{"--max-jobs", "24"}})
	}
	first := start()
	for range 8 {
		first.Sh("true")
	}
	before := first.Objects()
	var wg sync.WaitGroup
	ids := make([]string, jails)
	for i := range jails {
		m := modes[i%len(modes)]
		req := m.in(api.JobRequest{Command: []string{"sh", "-c", "(setsid sleep 7194 &); echo ready; exec sleep 7194"}, Limits: api.Limits{Memory: 64 << 20}})
		if m.jail == "syd" {
			req.Network = api.Network{Mode: "open"}
		}
		wg.Go(func() { ids[i] = begun(t, first, req) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if n := len(harness.Find("sleep\x007194")); n < jails {
		t.Fatalf("%d processes run, want at least %d", n, jails)
	}
	first.Kill()
	second := start()
	if left := harness.Find("sleep\x007194"); len(left) != 0 {
		t.Errorf("processes left: %v", left)
	}
	for _, id := range ids {
		job, err := second.Client.Get(t.Context(), id, 10*harness.Slow)
		if err != nil || job.Result == nil || job.Result.Outcome != api.OutcomeAgentLost || job.Result.Stdout != "ready\n" {
			t.Errorf("job %s: %v %+v", id, err, job)
		}
	}
	for range 8 {
		second.Sh("true")
	}
	if diff := second.WaitObjects(before, 10*harness.Slow); diff != "" {
		t.Errorf("the second agent holds other things than the first did:\n%s", diff)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), state+"/") {
		t.Errorf("mounts left on the node: %v", err)
	}
}

// begun starts a job and returns its id when it has printed something.
func begun(t *testing.T, a *harness.Agent, req api.JobRequest) string {
	t.Helper()
	job, err := a.Client.Start(t.Context(), req)
	if err != nil {
		t.Error(err)
		return ""
	}
	for e, err := range a.Client.Events(t.Context(), job.ID, 0) {
		if err != nil || e.Type == "stdout" {
			break
		}
	}
	return job.ID
}
