package socket

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestClientTimeoutIsNoFailure (P22): whoever loses patience before the job is done has lost nothing. The job goes on, and is
// attached to again by its id: by waiting, by its events from where they broke off, and by sending the same request again.
func TestClientTimeoutIsNoFailure(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	req := api.JobRequest{ID: "long", Command: []string{"bash", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep .5; done; echo done >&2"}}
	const stdout = "1\n2\n3\n4\n5\n6\n"
	impatient, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if job, err := a.Client.Run(impatient, req); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a client that waits for one second got %+v %v", job, err)
	}

	text, next := "", int64(0)
	for e, err := range a.Client.Events(t.Context(), req.ID, 0) { // the first stream is dropped in the middle
		if err != nil {
			t.Fatal(err)
		}
		text, next = text+output(t, e), e.Seq+1
		if text != "" {
			break
		}
	}
	for e, err := range a.Client.Events(t.Context(), req.ID, next) {
		if err != nil || e.Seq != next {
			t.Fatalf("event %d, want %d: %v", e.Seq, next, err)
		}
		text, next = text+output(t, e), e.Seq+1
	}
	if text != stdout {
		t.Errorf("both streams together gave %q", text)
	}

	attach := map[string]func() (*api.Job, error){
		"wait":       func() (*api.Job, error) { return a.Client.Get(t.Context(), req.ID, 60*harness.Slow) },
		"send again": func() (*api.Job, error) { return a.Client.Run(t.Context(), req) },
	}
	for how, f := range attach {
		job, err := f()
		if err != nil || job.Result == nil || job.Result.Outcome != api.OutcomeOK || job.Result.Stdout != stdout || job.Result.Stderr != "done\n" {
			t.Errorf("%s: %+v %v", how, job, err)
		}
	}
}

// output is what an event carries of stdout.
func output(t *testing.T, e api.Event) string {
	t.Helper()
	if e.Type != "stdout" {
		return ""
	}
	b, err := client.Output(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestLimitEndsEveryProcess (P23): when a result says that the CPU limit ended the job, no process is left in its control group:
// not those that ignore signals, nor those that left session and parent.
func TestLimitEndsEveryProcess(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	const spin = `
import os, signal
for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU): signal.signal(s, signal.SIG_IGN)
for n in range(6):
    if os.fork() == 0:
        if n % 2: os.setsid()
        break
os.execvp("sh", ["sh", "-c", ": 7196; while :; do :; done"])
`
	req := code(spin, api.Limits{CPU: api.Duration(3 * time.Second)})
	req.ID = "spin"
	if _, err := a.Client.Start(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for deadline := time.Now().Add(60 * harness.Slow); len(pids) != 7; time.Sleep(harness.Slow / 50) {
		if pids = harness.Find("sh\x00-c\x00: 7196; while :; do :; done"); time.Now().After(deadline) {
			t.Fatalf("%d processes spin, want 7", len(pids))
		}
	}
	group := cgroupOf(t, pids[0])
	if n := len(inCgroup(t, group)); n < len(pids) {
		t.Fatalf("%d processes are in the job's control group, want at least %d", n, len(pids))
	}
	job, err := a.Client.Get(t.Context(), req.ID, 60*harness.Slow)
	left := inCgroup(t, group)
	if err != nil || job.Result == nil || job.Result.Outcome != api.OutcomeCPULimit || job.Result.Limit == nil || *job.Result.Limit != (api.Limit{Name: "cpu", Value: "3s", SetBy: "request"}) {
		t.Errorf("%+v %v", job, err)
	}
	if len(left) != 0 {
		t.Errorf("processes left in the job's control group when the result was there: %v", left)
	}
}

// cgroupOf is where a process is in every hierarchy.
func cgroupOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// inCgroup lists the processes that are in the very groups.
func inCgroup(t *testing.T, group string) (pids []int) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if text, err := os.ReadFile(p); err == nil && string(text) == group {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestMemoryIsNamedEveryTime (P25): programs that want more memory than they may have, one after the other and each in its own way, are
// each told so with the limit, who set it and what they held. None ends as a bare SIGKILL.
func TestMemoryIsNamedEveryTime(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	const limit = 96 << 20
	for range 2 {
		for name, req := range map[string]api.JobRequest{
			"at once":             code("x = bytearray(10**9)", api.Limits{}),
			"little by little":    code("x = []\nwhile True: x.append(bytes(1 << 20).replace(b'\\0', b'x'))", api.Limits{}),
			"a child":             {Command: []string{"bash", "-c", "python3 -c 'x = bytearray(10**9)'; echo the child ended with $?"}},
			"several":             code("import os\nfor n in range(3):\n    if os.fork() == 0: break\nx = bytearray(60 << 20)\nimport time; time.sleep(60)", api.Limits{}),
			"a garbage collector": {Language: "javascript", Code: "const x = []; for (;;) x.push(Buffer.alloc(1 << 20, 1))"},
		} {
			req.Limits = api.Limits{Memory: limit}
			res := a.Run(req)
			d := find(res, "limit.memory")
			if res.Outcome != api.OutcomeMemoryLimit || res.Limit == nil || *res.Limit != (api.Limit{Name: "memory", Value: "96Mi", SetBy: "request"}) || res.ExitCode != nil || res.Signal != nil {
				t.Errorf("%s: %s %s %+v %v", name, res.Outcome, res.Detail, res.Limit, res.Signal)
			}
			if d == nil || !strings.Contains(d.Why, "at its peak") {
				t.Errorf("%s: no denial tells the peak: %+v", name, res.Denials)
			}
			if peak := res.Usage.MemoryPeakBytes; peak < limit*3/4 || peak > limit+8<<20 {
				t.Errorf("%s: peak of %d bytes with a limit of %d", name, peak, limit)
			}
		}
	}
}

// TestKillsAreToldApart (P25): to the program they are all the same SIGKILL. The result says which it was.
func TestKillsAreToldApart(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	sleeper := func(id string) *api.Result {
		t.Helper()
		if _, err := a.Client.Start(t.Context(), api.JobRequest{ID: id, Command: []string{"sleep", "7197"}, Limits: api.Limits{Wall: api.Duration(time.Hour)}}); err != nil {
			t.Fatal(err)
		}
		waitRunning(t, a, id)
		if id == "lost" {
			if err := syscall.Kill(a.WardenOf("sleep\x007197"), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		} else if _, err := a.Client.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		job, err := a.Client.Get(t.Context(), id, 20*harness.Slow)
		if err != nil || job.Result == nil {
			t.Fatalf("%+v %v", job, err)
		}
		return job.Result
	}
	for _, c := range []struct {
		res          *api.Result
		outcome      api.Outcome
		limit        string
		words, rules string
	}{
		{a.Run(code("x = bytearray(10**9)", api.Limits{Memory: 64 << 20})), api.OutcomeMemoryLimit, "memory", "the memory limit of 64Mi (set by: request) ended the job", "limit.memory"},
		{a.Run(code("while True: pass", api.Limits{CPU: api.Duration(time.Second)})), api.OutcomeCPULimit, "cpu", "the cpu limit of 1s (set by: request) ended the job", "limit.cpu"},
		{a.Run(sleep("60", api.Limits{Wall: api.Duration(time.Second)})), api.OutcomeWallLimit, "wall", "the wall limit of 1s (set by: request) ended the job", "limit.wall"},
		{a.Sh("kill -KILL $$"), api.OutcomeSignal, "", "", "signal.sigkill"},
		{sleeper("cancelled"), api.OutcomeCancelled, "", "cancelled while it ran: cancelled by request", ""},
		{sleeper("lost"), api.OutcomeAgentLost, "", "the warden of the jail died", ""},
	} {
		if c.res.Outcome != c.outcome || !strings.Contains(c.res.Detail, c.words) {
			t.Errorf("%s %q, want %s %q", c.res.Outcome, c.res.Detail, c.outcome, c.words)
		}
		if name := limitName(c.res); name != c.limit {
			t.Errorf("%s names the limit %q, want %q", c.outcome, name, c.limit)
		}
		if rules := rulesOf(c.res); rules != c.rules {
			t.Errorf("%s is explained by %q, want %q", c.outcome, rules, c.rules)
		}
		if (c.res.Signal != nil) != (c.outcome == api.OutcomeSignal) {
			t.Errorf("%s tells the signal %v", c.outcome, c.res.Signal)
		}
	}
}

func limitName(res *api.Result) string {
	if res.Limit == nil {
		return ""
	}
	return res.Limit.Name
}

func rulesOf(res *api.Result) string {
	var rules []string
	for _, d := range res.Denials {
		rules = append(rules, d.Rule)
	}
	return strings.Join(rules, " ")
}

// TestBothStreamsAreDrained (P28): a program that fills one stream and then the other does not wait for a reader, and both are whole.
func TestBothStreamsAreDrained(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for name, src := range map[string]string{
		"one after the other": "import sys\nsys.stdout.write('o' * 10**6)\nsys.stderr.write('e' * 10**6)",
		"at once":             "import os, sys\nn = os.fork()\n(sys.stdout if n else sys.stderr).write(('o' if n else 'e') * 10**6)\nif n: sys.stdout.flush(); os.wait()",
		"in turns":            "import os\nfor _ in range(1000): os.write(2, b'e' * 1000); os.write(1, b'o' * 1000)",
	} {
		res := a.Run(code(src, api.Limits{Wall: api.Duration(20 * harness.Slow)}))
		if res.Outcome != api.OutcomeOK || res.Stdout != strings.Repeat("o", 1e6) || res.Stderr != strings.Repeat("e", 1e6) || res.Truncated || res.StdoutBytes != 1e6 || res.StderrBytes != 1e6 {
			t.Errorf("%s: %s %s, %d and %d bytes (counted %d and %d), truncated %v", name, res.Outcome, res.Detail, len(res.Stdout), len(res.Stderr), res.StdoutBytes, res.StderrBytes, res.Truncated)
		}
	}
}
