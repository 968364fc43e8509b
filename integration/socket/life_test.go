package socket

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestCancel: DELETE ends a job that ignores TERM within grace and a little, with everything in it.
func TestCancel(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	before := a.Objects()
	no := false
	job, err := a.Client.Start(t.Context(), api.JobRequest{Command: []string{"bash", "-c", "trap '' TERM; (setsid sleep 600 &) ; while :; do sleep 1; done"}, Wait: &no})
	if err != nil {
		t.Fatal(err)
	}
	waitRunning(t, a, job.ID)
	start := time.Now()
	done, err := a.Client.Cancel(t.Context(), job.ID)
	if err != nil || done.Result == nil || done.Result.Outcome != api.OutcomeCancelled {
		t.Fatalf("%+v %v", done, err)
	}
	if took := time.Since(start); took > 10*harness.Slow {
		t.Errorf("cancelling took %s", took)
	}
	if d := a.WaitObjects(before, 5*harness.Slow); d != "" {
		t.Error(d)
	}
}

// TestSignalAndStdin: a signal reaches the program and can be handled; open stdin is fed and closed.
func TestSignalAndStdin(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	no := false
	job, err := a.Client.Start(t.Context(), api.JobRequest{
		Command: []string{"bash", "-c", "trap 'echo got usr1' USR1; echo ready; while read -r l || [ $? -gt 128 ]; do echo line $l; done; echo eof"},
		Stdin:   api.Stdin{Open: true}, Wait: &no,
	})
	if err != nil {
		t.Fatal(err)
	}
	waitRunning(t, a, job.ID)
	if err := a.Client.Stdin(t.Context(), job.ID, strings.NewReader("one\n"), false); err != nil {
		t.Fatal(err)
	}
	time.Sleep(harness.Slow / 5)
	if err := a.Client.Signal(t.Context(), job.ID, "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(harness.Slow / 5)
	if err := a.Client.Stdin(t.Context(), job.ID, strings.NewReader("two\n"), true); err != nil {
		t.Fatal(err)
	}
	done, err := a.Client.Get(t.Context(), job.ID, 20*harness.Slow)
	if err != nil || done.Result == nil {
		t.Fatalf("%+v %v", done, err)
	}
	for _, want := range []string{"ready", "line one", "got usr1", "line two", "eof"} {
		if !strings.Contains(done.Result.Stdout, want) {
			t.Errorf("stdout lacks %q: %q", want, done.Result.Stdout)
		}
	}
}

// TestWardenKilled: a warden that is killed takes its jail with it, and the result does not call it success.
func TestWardenKilled(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	before := a.Objects()
	no := false
	job, err := a.Client.Start(t.Context(), api.JobRequest{Command: []string{"sleep", "611"}, Wait: &no})
	if err != nil {
		t.Fatal(err)
	}
	waitRunning(t, a, job.ID)
	warden := a.WardenOf("sleep\x00611")
	if err := syscall.Kill(warden, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	done, err := a.Client.Get(t.Context(), job.ID, 10*harness.Slow)
	if err != nil || done.Result == nil || done.Result.Outcome != api.OutcomeAgentLost {
		t.Errorf("%+v %v", done, err)
	}
	if d := a.WaitObjects(before, 5*harness.Slow); d != "" {
		t.Error(d)
	}
}

// TestAgentKilled: an agent that is killed leaves nothing once its successor has started.
func TestAgentKilled(t *testing.T) {
	state := t.TempDir()
	first := harness.Start(t, harness.Options{State: state})
	no := false
	for range 3 {
		if _, err := first.Client.Start(t.Context(), api.JobRequest{Command: []string{"sleep", "612"}, Wait: &no}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(harness.Slow)
	first.Kill()
	second := harness.Start(t, harness.Options{State: state})
	if left := harness.Find("sleep\x00612"); len(left) != 0 {
		t.Errorf("processes of the killed agent's jobs still run: %v", left)
	}
	if res := second.Sh("echo ok"); res.Stdout != "ok\n" {
		t.Errorf("%+v", res)
	}
	if d := second.Objects(); d.RunDirs > 8 {
		t.Errorf("working directories left: %+v", d)
	}
}

// TestMinimal: the weaker mode says so.
func TestMinimal(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	res := a.Run(api.JobRequest{Command: []string{"id", "-u"}, Jail: "minimal"})
	if res.Outcome != api.OutcomeOK || res.Stdout != "1000\n" {
		t.Fatalf("%s %s %q %q", res.Outcome, res.Detail, res.Stdout, res.Stderr)
	}
	if res.Isolation.Mode != "minimal" || res.Isolation.Grade != "minimal" {
		t.Errorf("%+v", res.Isolation)
	}
	for _, layer := range []string{"seccomp", "ptrace"} {
		if !contains(res.Isolation.Missing, layer) || contains(res.Isolation.Layers, layer) {
			t.Errorf("layer %s is not reported missing: %+v", layer, res.Isolation)
		}
	}
	if _, err := a.Client.Run(t.Context(), api.JobRequest{Command: []string{"id"}, Jail: "minimal", MinGrade: "syd"}); err == nil {
		t.Error("min_grade syd was given a minimal jail")
	}
}

func contains(list []string, s string) bool {
	return strings.Contains(" "+strings.Join(list, " ")+" ", " "+s+" ")
}

// waitRunning waits until a job's command runs.
func waitRunning(t *testing.T, a *harness.Agent, id string) {
	t.Helper()
	for deadline := time.Now().Add(20 * harness.Slow); ; time.Sleep(10 * time.Millisecond) {
		job, err := a.Client.Get(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		if job.State == api.StateRunning {
			time.Sleep(harness.Slow / 5)
			return
		}
		if job.State == api.StateFinished || time.Now().After(deadline) {
			t.Fatalf("job %s: %s %+v", id, job.State, job.Result)
		}
	}
}

// TestStdinIsReopened: programs that are told to read /dev/stdin open it anew; text stays as it is, whatever they try.
func TestStdinIsReopened(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	res := a.Run(api.JobRequest{
		Command: []string{"sh", "-c", "cat /dev/stdin; cat; (echo no > /dev/stdin) 2>/dev/null || echo read-only"},
		Stdin:   api.Stdin{Text: "twice\n"},
	})
	if res.Outcome != api.OutcomeOK || res.Stdout != "twice\ntwice\nread-only\n" {
		t.Errorf("%s %s: %q %q", res.Outcome, res.Detail, res.Stdout, res.Stderr)
	}
}
