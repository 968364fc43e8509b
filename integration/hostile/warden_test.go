package hostile

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

func named(res *api.Result, rule string) bool {
	return slices.ContainsFunc(res.Denials, func(d api.Denial) bool { return d.Rule == rule })
}

// TestWardenDies is A19: with the warden killed in the middle of a program's refused calls, the whole jail dies and the
// result says that the run is lost. Nothing of it runs on unfiltered, or at all.
func TestWardenDies(t *testing.T) {
	const mark = "7331"
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Env: map[string]string{"TOLBOOTH_EXPLAINER": m.explainer}})
			job, err := a.Client.Start(t.Context(), api.JobRequest{
				Jail: m.jail, Command: []string{"bash", "-c", `setsid sleep ` + mark + ` & python3 -c '
import ctypes
libc = ctypes.CDLL(None)
while libc.ptrace(16, 1, 0, 0) != 0: pass
print("ESCAPED")' & sleep ` + mark}})
			if err != nil {
				t.Fatal(err)
			}
			cmdline := "sleep\x00" + mark
			for deadline := time.Now().Add(10 * harness.Slow); len(harness.Find(cmdline)) < 2; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the program does not run")
				}
			}
			time.Sleep(harness.Slow / 20) // into the loop
			if err := syscall.Kill(a.WardenOf(cmdline), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(2 * harness.Slow); len(harness.Find(cmdline)) > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("alive without a warden: %v", harness.Find(cmdline))
				}
			}
			got, err := a.Client.Wait(t.Context(), job.ID)
			if err != nil {
				t.Fatal(err)
			}
			if r := got.Result; r == nil || r.Outcome != api.OutcomeAgentLost || strings.Contains(r.Stdout, "ESCAPED") {
				t.Errorf("result %+v, want outcome agent_lost", r)
			}
			if res := a.Python("print(1+1)"); res.Stdout != "2\n" {
				t.Errorf("the next ordinary job: %+v", res)
			}
		})
	}
}

// TestFloodOfRefusals is A25: eight threads that do nothing but make refused calls neither slow a neighbour nor escape their
// clock, and a cancel is heard.
func TestFloodOfRefusals(t *testing.T) {
	flood, err := programs.ReadFile("testdata/a25_flood.c")
	if err != nil {
		t.Fatal(err)
	}
	content := compile(t, flood)
	for _, m := range modes[:2] {
		t.Run(m.name, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Env: map[string]string{"TOLBOOTH_EXPLAINER": m.explainer}})
			ordinary := func() time.Duration {
				times := make([]time.Duration, 9)
				for i := range times {
					start := time.Now()
					if res := a.Python("print(1+1)"); res.Stdout != "2\n" {
						t.Fatalf("ordinary job: %+v", res)
					}
					times[i] = time.Since(start)
				}
				slices.Sort(times)
				return times[len(times)/2]
			}
			alone := ordinary()
			req := api.JobRequest{
				Command: []string{"./flood"}, Limits: api.Limits{CPUs: 1, Wall: api.Duration(120 * harness.Slow)},
				Files: []api.File{{Path: "flood", Content: content, Encoding: "base64", Mode: "0755"}},
			}
			job, err := a.Client.Start(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(harness.Slow)
			beside := ordinary()
			t.Logf("an ordinary job takes %s, beside a flood %s", alone, beside)
			// A third job has a share of its own; the rest is for machines that do something else as well.
			if beside > 3*alone+50*time.Millisecond {
				t.Errorf("an ordinary job takes %s, beside a flood %s", alone, beside)
			}
			start := time.Now()
			got, err := a.Client.Cancel(t.Context(), job.ID)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 10*harness.Slow || got.Result.Outcome != api.OutcomeCancelled {
				t.Errorf("cancelled after %s: %+v", took, got.Result.Outcome)
			}
			if res := got.Result; !named(res, "syscall.ptrace") || len(res.Denials) > 8 {
				t.Errorf("denials %+v, want a summary that names syscall.ptrace", res.Denials)
			}
			req.Limits.Wall = api.Duration(harness.Slow)
			start = time.Now()
			if res := a.Run(req); res.Outcome != api.OutcomeWallLimit || time.Since(start) > 3*harness.Slow {
				t.Errorf("wall limit of 1s: %s after %s", res.Outcome, time.Since(start))
			}
		})
	}
}
