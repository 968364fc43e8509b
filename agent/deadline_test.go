package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/internal/undo"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// hungSpine is a spine above a faked world in which one step never comes back until stuck is closed.
func hungSpine(f *faked) *spine {
	return &spine{
		filters: testFilters, log: slog.New(slog.DiscardHandler), faults: &faults{}, steps: &steps{}, limit: time.Minute,
		flushes: &flushes{}, places: f, trees: f, nets: f, cpus: newCPUSpread([]int{0}),
	}
}

// TestRunLeavesAStepThatHangs: whichever step hangs, the job ends after start_timeout and says which it was; nothing that was
// acquired is given back, and health says what hangs, until the step comes back: then all is undone in order, the late step's
// own result first.
func TestRunLeavesAStepThatHangs(t *testing.T) {
	names := map[string]string{
		"take": "prepare the jail", "make tree": "open the workspace", "build root": "build the root",
		"plug": "set up the network", "set limits": "set the limits", "start": "start the command",
	}
	late := map[string][]string{"take": {"release"}, "make tree": {"discard"}, "plug": {"unplug"}}
	for i, hang := range doing {
		t.Run(hang, func(t *testing.T) {
			w := testWork(t)
			w.Workspace = ""
			synctest.Test(t, func(t *testing.T) {
				f := &faked{hang: hang, stuck: make(chan struct{})}
				s := hungSpine(f)
				began := time.Now()
				results := make(chan api.Result, 1)
				go func() { results <- s.Run(t.Context(), w, &follow{}) }()

				time.Sleep(hangs + time.Second)
				var r report
				s.steps.addTo(&r)
				if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, names[hang]) || !strings.Contains(r.Problems[0].Why, began.UTC().Format(time.RFC3339)) || !r.Blocked || r.Figures.Hanging != 1 {
					t.Errorf("after %s: %+v", hangs, r)
				}

				res := <-results
				if took := time.Since(began); took != s.limit {
					t.Errorf("the job ended after %s", took)
				}
				if res.Outcome != api.OutcomeStartFailed || !strings.HasPrefix(res.Detail, names[hang]+": ") || !strings.Contains(res.Detail, errNoAnswer.Error()) {
					t.Errorf("result %s %q", res.Outcome, res.Detail)
				}
				time.Sleep(time.Hour)
				if got := f.log(); !slices.Equal(got, doing[:i+1]) {
					t.Errorf("did %v before the step came back, want %v", got, doing[:i+1])
				}
				if s.faults.counts()["undo"] != 1 {
					t.Error("an undo that waits for an hour is no fault")
				}

				close(f.stuck)
				s.undoing.Wait()
				want := append(slices.Clone(doing[:i+1]), late[hang]...)
				for _, d := range slices.Backward(doing[:i]) {
					want = append(want, undoing[d]...)
				}
				if got := f.log(); !slices.Equal(got, want) {
					t.Errorf("did %v, want %v", got, want)
				}
				after := report{}
				s.steps.addTo(&after)
				if len(after.Problems) > 0 || after.Blocked || after.Figures.Hanging != 0 || after.Figures.LeftBehind != 1 {
					t.Errorf("after it came back: %+v", after)
				}
			})
		})
	}
}

// TestRunCancelledWhileAStepHangs: who cancels does not wait for start_timeout.
func TestRunCancelledWhileAStepHangs(t *testing.T) {
	w := testWork(t) // of a named workspace: opening it is bounded by the cancellation alone
	synctest.Test(t, func(t *testing.T) {
		f := &faked{hang: "make tree", stuck: make(chan struct{})}
		s := hungSpine(f)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*s.limit, func() {
			if list := s.steps.hanging(); len(list) > 0 {
				t.Errorf("a job that may wait for another of its workspace counts as hanging: %+v", list)
			}
			cancel(errors.New("asked to"))
		})
		began := time.Now()
		res := s.Run(ctx, w, &follow{})
		if list := s.steps.hanging(); len(list) != 1 {
			t.Errorf("left behind: %+v", list)
		}
		if took := time.Since(began); took != 10*s.limit+hurry {
			t.Errorf("ended after %s", took)
		}
		if res.Outcome != api.OutcomeCancelled || !strings.Contains(res.Detail, "asked to\nopen the workspace: "+errNoAnswer.Error()) {
			t.Errorf("%s %q", res.Outcome, res.Detail)
		}
		close(f.stuck)
		s.undoing.Wait()
	})
}

// TestBlockedUntilAStartWorks: as long as others take the same step, new jobs can run.
func TestBlockedUntilAStartWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &steps{}
		a := s.begin("a", "j1")
		time.Sleep(hangs)
		if list := s.hanging(); len(list) > 0 {
			t.Errorf("hangs after %s: %+v", hangs, list)
		}
		s.end(s.begin("a", "j2"), false)
		s.end(s.begin("b", "j2"), true)
		time.Sleep(time.Second)
		var r report
		if s.addTo(&r); !r.Blocked || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Why, "of job j1") {
			t.Errorf("%+v", r)
		}
		s.end(s.begin("a", "j3"), true)
		r = report{}
		if s.addTo(&r); r.Blocked || len(r.Problems) != 1 {
			t.Errorf("another took the step since: %+v", r)
		}
		s.end(a, false)
		r = report{}
		if s.addTo(&r); r.Blocked || len(r.Problems) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestPanicOfAStep: it reaches who waits, and one that comes late is an error of the undoing.
func TestPanicOfAStep(t *testing.T) {
	try := attempt{ctx: t.Context(), steps: &steps{}, back: &undo.Stack{}, limit: time.Minute}
	defer func() {
		if p, ok := recover().(string); !ok || !strings.HasPrefix(p, "broken\n") || len(try.steps.hanging()) > 0 {
			t.Errorf("recovered %v", p)
		}
	}()
	try.within("step", func(context.Context) error { panic("broken") })
}

// TestRunLeavesAWardenThatHangs: a warden that reports no end is waited for until the job's own limits must have ended it, and
// processes that cannot be ended keep the tree from being read.
func TestRunLeavesAWardenThatHangs(t *testing.T) {
	w := testWork(t)
	w.Limits.Wall.Value = time.Hour
	synctest.Test(t, func(t *testing.T) {
		f := &faked{hang: "kill", stuck: make(chan struct{}), deaf: true, exit: jail.Exit{Cause: jail.CauseExit}}
		s := hungSpine(f)
		began := time.Now()
		res := s.Run(t.Context(), w, &follow{})
		if took := time.Since(began); took != time.Hour+endPatience+killTime {
			t.Errorf("ended after %s", took)
		}
		if res.Outcome != api.OutcomeAgentLost || !strings.Contains(res.Detail, "did not report") || !strings.Contains(res.Detail, "end the processes of the job: "+errNoAnswer.Error()) {
			t.Errorf("%s %q", res.Outcome, res.Detail)
		}
		if n := s.faults.counts(); n["warden"] != 1 || n["kill"] != 1 {
			t.Errorf("faults %v", n)
		}
		close(f.stuck)
		s.undoing.Wait()
		want := append(slices.Clone(doing), "kill", "park", "unplug", "kill", "discard", "release")
		if got := f.log(); !slices.Equal(got, want) {
			t.Errorf("did %v, want %v", got, want)
		}
	})
}

// TestCancelledWardenThatHangs: one that was told to end its jail has the grace, and a little.
func TestCancelledWardenThatHangs(t *testing.T) {
	w := testWork(t)
	w.Limits.Wall.Value = time.Hour
	synctest.Test(t, func(t *testing.T) {
		f := &faked{deaf: true, hold: make(chan struct{})}
		s := hungSpine(f)
		s.grace = 2 * time.Second
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errors.New("asked to")) })
		began := time.Now()
		res := s.Run(ctx, w, &follow{})
		if took := time.Since(began); took != time.Minute+s.grace+endPatience || res.Outcome != api.OutcomeAgentLost {
			t.Errorf("ended after %s: %s %q", took, res.Outcome, res.Detail)
		}
		s.undoing.Wait()
	})
}

// TestGiveBackDoesNotWaitForEver: the agent ends although a step hangs, and its log names it.
func TestGiveBackDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		st, back, stuck := &steps{}, &undo.Stack{}, make(chan struct{})
		back.Push("unlock", func() error { return nil })
		back.Push("discard", func() error { <-stuck; return nil })
		st.begin("start the command", "j7")
		began := time.Now()
		err := giveBack(back, st, slog.New(slog.NewTextHandler(&log, nil)))
		if err == nil || !strings.Contains(err.Error(), "of: discard, unlock") || time.Since(began) != closeTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if text := log.String(); !strings.Contains(text, "start the command") || !strings.Contains(text, "j7") {
			t.Errorf("log %q", text)
		}
		close(stuck)
	})
}

// TestHealthOfANodeThatHangs: 503 while no start gets through, 200 with the problem when others do, ok when nothing hangs.
func TestHealthOfANodeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &steps{}
		s := &Server{cfg: DefaultConfig(), jobs: &manager{cfg: &Config{}}, report: func() report {
			r := report{Modes: map[jail.Mode]modeReport{}}
			st.addTo(&r)
			return r
		}}
		hung := st.begin("start the command", "j")
		time.Sleep(hangs + time.Second)
		for _, want := range []string{api.StatusFailing, api.StatusDegraded, api.StatusOK} {
			if h := s.health(); h.Status != want || (len(h.Problems) > 0) != (want != api.StatusOK) {
				t.Errorf("%s %+v, want %s", h.Status, h.Problems, want)
			}
			switch want {
			case api.StatusFailing:
				st.end(st.begin("start the command", "other"), true)
			case api.StatusDegraded:
				st.end(hung, true)
			}
		}
	})
}

// TestHungJobsEndWithinTheDrain: jobs that hang in their start or at their end are given up before the drain gives up on them,
// and all of the end fits into what docs/operators.md promises and the manifest's grace period allows for.
func TestHungJobsEndWithinTheDrain(t *testing.T) {
	if hurry >= endTime || endPatience+killTime >= endTime {
		t.Errorf("a start ends after %s, a run after %s, the drain after %s", hurry, endPatience+killTime, endTime)
	}
	if all := endTime + answersTime + closeTime; all > 50*time.Second {
		t.Errorf("the end may take %s", all)
	}
}
