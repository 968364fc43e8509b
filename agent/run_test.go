package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	seccomp "github.com/tolbooth-dev/tolbooth/jail/filter"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// faked fakes everything below the spine: it logs what was done and undone, and fails at one step.
type faked struct {
	mu   sync.Mutex
	done []string
	fail string
	exit jail.Exit
	hold chan struct{} // Wait blocks until it is closed, when there is one

	hang  string        // this step, the first time, comes back when stuck is closed
	stuck chan struct{} //
	deaf  bool          // Wait blocks until its context ends
}

func (f *faked) step(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, name)
	if name == f.hang {
		f.hang = ""
		f.mu.Unlock()
		<-f.stuck
		f.mu.Lock()
	}
	if name == f.fail {
		return errors.New(name + " broke")
	}
	return nil
}

func (f *faked) log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

func (f *faked) Take(context.Context, *work) (*place, error) {
	if err := f.step("take"); err != nil {
		return nil, err
	}
	p := &place{slot: 3, group: fakeGroup{f}, cell: fakeCell{f}}
	p.back.Push("release", func() error { return f.step("release") })
	return p, nil
}

func (f *faked) Make(context.Context, *work, *place) (tree, error) {
	if err := f.step("make tree"); err != nil {
		return nil, err
	}
	return fakeTree{f}, nil
}

func (f *faked) Plug(*work, *place, func(api.Denial)) (plug, error) {
	if err := f.step("plug"); err != nil {
		return nil, err
	}
	return fakePlug{f}, nil
}

type fakeGroup struct{ *faked }

func (g fakeGroup) SetLimits(cgroup.Limits) error { return g.step("set limits") }
func (g fakeGroup) Usage() (cgroup.Usage, error)  { return cgroup.Usage{CPU: time.Second}, nil }
func (g fakeGroup) Kill() error                   { return g.step("kill") }
func (g fakeGroup) Populated() (bool, error)      { return false, nil }
func (g fakeGroup) Processes() ([]int, error)     { return nil, nil }
func (g fakeGroup) WaitEmpty(time.Duration) error { return nil }
func (g fakeGroup) Remove() error                 { return nil }
func (g fakeGroup) Hold() error                   { return nil }
func (g fakeGroup) Frozen() (bool, error)         { return true, nil }
func (g fakeGroup) Thaw() error                   { return nil }

type fakeCell struct{ *faked }

func (c fakeCell) Build(context.Context, jail.Root) error { return c.step("build root") }

func (c fakeCell) Start(context.Context, jail.Spec) (running, error) {
	if err := c.step("start"); err != nil {
		return nil, err
	}
	return fakeRunning{c.faked}, nil
}

type fakeRunning struct{ *faked }

func (p fakeRunning) Signal(syscall.Signal) error { return nil }
func (p fakeRunning) Cancel(c jail.Cause) {
	p.step("cancel " + string(c))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit = jail.Exit{Cause: c}
	close(p.hold)
}

func (p fakeRunning) Kill(c jail.Cause) { p.step("at once"); p.Cancel(c) }

func (p fakeRunning) Wait(ctx context.Context) (jail.Exit, error) {
	if p.deaf {
		<-ctx.Done()
		return jail.Exit{}, context.Cause(ctx)
	}
	if p.hold != nil {
		<-p.hold
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit, nil
}

type fakeTree struct{ *faked }

func (t fakeTree) Root() *os.File                                  { return nil }
func (t fakeTree) Mounts() []cowfs.Mount                           { return nil }
func (t fakeTree) DiskUsage(context.Context) (int64, int64, error) { return 1 << 20, 1, nil }
func (t fakeTree) Quota() bool                                     { return true }
func (t fakeTree) Glob(context.Context, []string) ([]cowfs.FileInfo, error) {
	return []cowfs.FileInfo{{Path: "o.txt", Size: 2, Mode: 0o644}}, t.step("glob")
}
func (t fakeTree) ReadFile(string, int64) ([]byte, cowfs.FileInfo, error) {
	return []byte("hi"), cowfs.FileInfo{}, nil
}
func (t fakeTree) Remove(path string) error                      { return t.step("remove " + path) }
func (t fakeTree) Flush(context.Context, string) (string, error) { return "snap", t.step("flush") }
func (t fakeTree) Park(error) error                              { return t.step("park") }
func (t fakeTree) Discard() error                                { return t.step("discard") }

type fakePlug struct{ *faked }

func (p fakePlug) Rewire(network) (int, error) { return 0, nil }
func (p fakePlug) Denials() []api.Denial       { return nil }
func (p fakePlug) Traffic() (traffic, error)   { return traffic{tx: 1, rx: 2}, nil }
func (p fakePlug) Close() error                { return p.step("unplug") }

// follow is a progress that writes down the states.
type follow struct{ states []api.State }

func (f *follow) Enter(s api.State) { f.states = append(f.states, s) }
func (f *follow) Started(process)   {}
func (f *follow) Deny(api.Denial)   {}
func (f *follow) Notify() *os.File  { return nil }

func testWork(t *testing.T) *work {
	spool, err := os.Create(t.TempDir() + "/spool")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { spool.Close() })
	return &work{
		ID: "j", Admitted: time.Now(), Mode: jail.Syd, Policy: mustPolicy(t, policy.Change{}), Workspace: "w", Outputs: []string{"*.txt"}, Files: []inputFile{{Path: "in"}, {Path: "code", Scratch: true}}, Spool: spool, SpoolPath: spool.Name(),
		Network: network{Mode: "none"},
		Limits:  limits{Disk: limit[int64]{1 << 30, "default"}, Inodes: limit[int64]{1000, "default"}, Memory: limit[int64]{1 << 20, "request"}},
	}
}

// testFilters is one for all tests: compiling takes its time.
var testFilters = &seccomp.Cache{}

// run takes one job through a faked world and waits until everything is undone.
func (f *faked) run(ctx context.Context, t *testing.T) (api.Result, []api.State) {
	s := &spine{filters: testFilters, log: slog.New(slog.DiscardHandler), faults: &faults{}, steps: &steps{}, limit: time.Minute, flushes: &flushes{}, places: f, trees: f, nets: f, cpus: newCPUSpread([]int{0})}
	p := &follow{}
	res := s.Run(ctx, testWork(t), p)
	s.undoing.Wait()
	return res, p.states
}

var (
	doing   = []string{"take", "make tree", "build root", "plug", "set limits", "start"}
	undoing = map[string][]string{"take": {"release"}, "make tree": {"kill", "discard"}, "plug": {"unplug"}}
)

// TestRunUndoesInReverse fails at each step in turn: what was done before is undone, in exactly the reverse order, and the
// result names the step.
func TestRunUndoesInReverse(t *testing.T) {
	for i, fail := range doing {
		t.Run(fail, func(t *testing.T) {
			f := &faked{fail: fail}
			res, _ := f.run(t.Context(), t)
			want := slices.Clone(doing[:i+1])
			for _, d := range slices.Backward(doing[:i]) {
				want = append(want, undoing[d]...)
			}
			if got := f.log(); !slices.Equal(got, want) {
				t.Errorf("did %v, want %v", got, want)
			}
			if res.Outcome != api.OutcomeStartFailed || !strings.Contains(res.Detail, fail+" broke") {
				t.Errorf("result %s %q", res.Outcome, res.Detail)
			}
		})
	}
}

// TestRunOrder: no process survives into the outputs and the flush, and everything is undone after.
func TestRunOrder(t *testing.T) {
	f := &faked{exit: jail.Exit{Cause: jail.CauseExit, Code: 3}}
	res, states := f.run(t.Context(), t)
	want := append(slices.Clone(doing), "kill", "remove code", "glob", "flush", "unplug", "kill", "discard", "release")
	if got := f.log(); !slices.Equal(got, want) {
		t.Errorf("did %v, want %v", got, want)
	}
	if res.Outcome != api.OutcomeExit || *res.ExitCode != 3 || *res.Snapshot != "snap" || res.Outputs[0].Content != "hi" || res.Usage.CPUMS != 1000 {
		t.Errorf("%+v", res)
	}
	if !slices.Equal(states, []api.State{api.StateStarting, api.StateRunning}) {
		t.Errorf("states %v", states)
	}
}

// TestRunParksWhatItCannotFlush: a failed flush keeps the workspace and says so.
func TestRunParksWhatItCannotFlush(t *testing.T) {
	f := &faked{fail: "flush", exit: jail.Exit{Cause: jail.CauseExit}}
	res, _ := f.run(t.Context(), t)
	if i := slices.Index(f.log(), "flush"); i < 0 || f.log()[i+1] != "park" {
		t.Errorf("did %v", f.log())
	}
	if res.Snapshot != nil || !strings.Contains(res.Detail, "flush broke") || res.Outcome != api.OutcomeOK {
		t.Errorf("%+v", res)
	}
}

// TestRunCancelled: a cancelled context ends the command through the warden and the life goes on to its end, the flush
// included.
func TestRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &faked{hold: make(chan struct{})}
	time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("asked to")) })
	res, _ := f.run(ctx, t)
	if !slices.Contains(f.log(), "cancel cancelled") || !slices.Contains(f.log(), "flush") || res.Outcome != api.OutcomeCancelled {
		t.Errorf("did %v, outcome %s", f.log(), res.Outcome)
	}
}

// TestLimitDenialFix: the fix doubles the limit, stops at the node's cap, and is null there.
func TestLimitDenialFix(t *testing.T) {
	in := limits{Memory: limit[int64]{512 << 20, "request"}, Wall: limit[time.Duration]{time.Second, "default"}, Pids: limit[int64]{10, "node"}}
	most := limits{Memory: limit[int64]{768 << 20, ""}, Wall: limit[time.Duration]{time.Hour, ""}, Pids: limit[int64]{10, ""}}
	for _, c := range []struct{ name, fix string }{
		{"memory", `{"limits":{"memory":"768Mi"}}`},
		{"wall", `{"limits":{"wall":"2s"}}`},
		{"pids", `null`},
	} {
		d := limitDenial(api.Limit{Name: c.name, Value: "v", SetBy: "request"}, in, most, api.Usage{})
		if string(d.Fix) != c.fix || d.Why == "" || d.Layer != "limit" {
			t.Errorf("%s: %s", c.name, fmt.Sprintf("%+v fix %s", d, d.Fix))
		}
	}
}

// TestRunStoppedAtOnce: an agent that was told to stop at once gives jobs no grace.
func TestRunStoppedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &faked{hold: make(chan struct{})}
	time.AfterFunc(20*time.Millisecond, func() { cancel(errStopped) })
	if res, _ := f.run(ctx, t); !slices.Contains(f.log(), "at once") || res.Outcome != api.OutcomeCancelled {
		t.Errorf("did %v, outcome %s", f.log(), res.Outcome)
	}
}
