package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/internal/undo"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// Run takes one job through its whole life. It is the only place that knows the order:
//
//	take a place → make the tree → choose CPUs → build the root → plug the network → set limits → start → wait →
//	kill until empty → outputs → flush → undo in reverse
//
// Each acquisition pushes its undo on the next line. Nothing of the job runs any more when Run returns; what is left to
// undo then (closing mounts, removing directories, giving the slot back) holds no process and goes on in the background.
func (s *spine) Run(ctx context.Context, w *work, p progress) api.Result {
	r := newResult(w)
	back := &undo.Stack{}
	defer s.finish(back, w.ID)
	try := attempt{ctx: ctx, steps: s.steps, back: back, job: w.ID, limit: s.limit}

	p.Enter(api.StateStarting)

	place, err := within(try, "prepare the jail", func(ctx context.Context) (*place, error) { return s.places.Take(ctx, w) }, (*place).Release)
	if err != nil {
		return r.startFailed(ctx, err)
	}
	back.Push("give the place back", place.Release)
	r.timer.step(&r.Timings.Jail)

	open := try
	if w.Workspace != "" {
		open = try.unbounded() // it waits for other jobs of the workspace, and for the bucket
	}
	tree, err := within(open, "open the workspace", func(ctx context.Context) (tree, error) { return s.trees.Make(ctx, w, place) }, tree.Discard)
	if err != nil {
		return r.startFailed(ctx, err)
	}
	back.Push("discard the tree", tree.Discard)
	back.Push("end every process", place.kill)
	r.timer.step(&r.Timings.Workspace)

	cpus, give := s.cpus.take(w.Limits.CPUs.Value)
	back.Push("give the CPUs back", func() error { give(); return nil })
	err = try.within("build the root", func(ctx context.Context) error { return place.build(ctx, tree, memoryOf(w.Limits), cpus) })
	if err != nil {
		return r.startFailed(ctx, err)
	}
	r.timer.step(&r.Timings.Jail)

	plug, err := within(try, "set up the network", func(context.Context) (plug, error) { return s.nets.Plug(w, place, p.Deny) }, plug.Close)
	if err != nil {
		return r.startFailed(ctx, err)
	}
	back.Push("unplug the network", plug.Close)
	r.timer.step(&r.Timings.Network)

	err = try.within("set the limits", func(context.Context) error { return place.group.SetLimits(w.cgroupLimits()) })
	if err != nil {
		return r.startFailed(ctx, err)
	}
	if err := place.own(w.Stdin); err != nil {
		return r.startFailed(ctx, fmt.Errorf("hand stdin over: %w", err))
	}
	spec, err := s.jailSpec(w, place, tree.Quota(), cpus, p.Notify())
	if err != nil {
		return r.startFailed(ctx, fmt.Errorf("compile the system call policy: %w", err))
	}
	// A command that starts late is ended with the place.
	proc, err := within(try, "start the command", func(ctx context.Context) (running, error) { return place.cell.Start(ctx, spec) }, nil)
	if err != nil {
		return r.startFailed(ctx, err)
	}
	r.timer.step(&r.Timings.Jail)
	p.Started(live{proc, plug})
	p.Enter(api.StateRunning)

	exit, lost := s.await(ctx, w, proc, tree, place.group)
	killed := s.kill(w, place, tree, back) // no writer survives into the flush
	if killed != nil {
		r.problem(killed)
	}
	r.timer.step(&r.Timings.Run)

	r.exited(w, exit)
	r.unreported(lost)
	printed := r.printed(w)
	if errors.Is(killed, errNoAnswer) { // whatever is asked next may hang as well
		r.because(ctx)
		return r.result()
	}
	r.used(exit, place, tree, plug)
	r.because(ctx)
	r.unscratch(w, tree)
	r.collectOutputs(w, tree)
	if w.Workspace != "" {
		r.flush(s, tree, w)
		r.timer.step(&r.Timings.Flush)
	}
	r.Isolation = s.isolation(w, exit)
	late := r.denied(evidence{
		policy: w.Policy, extras: offered(s.extras, s.engine), most: s.limitsMax, quota: tree.Quota(),
		exit: exit, printed: printed, network: plug.Denials(),
	})
	for _, d := range late { // the others were events when they happened
		p.Deny(d)
	}
	return r.result()
}

// await waits for the command's end. A cancelled context ends it with TERM, grace and KILL; disk use over the limit ends
// it at once. The wait itself is not cancelled: each of those makes the warden kill the jail and report. A warden that
// reports nothing long after it must have is waited for no longer.
func (s *spine) await(ctx context.Context, w *work, proc running, t tree, g group) (jail.Exit, error) {
	unreported := fmt.Errorf("%w: the warden did not report the end of the command", errNoAnswer)
	watch, done := context.WithCancelCause(context.WithoutCancel(ctx))
	defer done(nil)
	last := time.AfterFunc(w.Limits.Wall.Value+s.grace+endPatience, func() { done(unreported) })
	defer last.Stop()
	stop := context.AfterFunc(ctx, func() {
		last.Reset(s.grace + endPatience)
		if errors.Is(context.Cause(ctx), errStopped) {
			proc.Kill(jail.CauseCancelled)
			return
		}
		proc.Cancel(jail.CauseCancelled)
	})
	defer stop()
	if !t.Quota() {
		go s.disk.hold(watch, w.Limits, t, g, func() { proc.Cancel(jail.CauseDisk) })
	}

	exit, err := proc.Wait(watch)
	if err != nil {
		s.faults.add("warden", err)
		s.log.Error("the warden was lost", "job", w.ID, "err", err)
	}
	return exit, err
}

// kill ends every process of the job. When that hangs, the tree is not read any more, since a process may still write to it;
// a named workspace's work is kept on this node once nothing does.
func (s *spine) kill(w *work, p *place, t tree, back *undo.Stack) error {
	try := attempt{ctx: context.Background(), steps: s.steps, back: back, job: w.ID, limit: killTime}
	failed, err := within(try, "end the processes of the job", func(context.Context) (error, error) { return p.kill(), nil }, func(error) error {
		if w.Workspace == "" {
			return nil
		}
		return t.Park(fmt.Errorf("the processes of job %s did not end in time", w.ID))
	})
	switch {
	case err != nil:
		s.faults.add("kill", err)
		s.log.Error("the processes of a job do not end", "job", w.ID, "err", err)
		return fmt.Errorf("%w; outputs and workspace were not collected", err)
	case failed != nil:
		return fmt.Errorf("end the processes of the job: %w", failed)
	}
	return nil
}

// Bounds of a job's end, beyond which the kernel counts as not answering.
const (
	endPatience = 10 * time.Second             // for the warden to report, after the last limit or the grace
	killTime    = killPatience + 5*time.Second // for the kernel to take KILL, and for the processes to go
)

// finish undoes in the background what a finished job still holds.
func (s *spine) finish(back *undo.Stack, id string) {
	under := s.steps.add(&step{name: "give back what a job held", job: id, patient: s.limit})
	s.undoing.Go(func() {
		slow := time.AfterFunc(s.limit, func() {
			err := fmt.Errorf("%w: what job %s held is not given back after %s", errNoAnswer, id, s.limit)
			s.faults.add("undo", err)
			s.log.Error("undo what a job held", "job", id, "err", err)
		})
		defer slow.Stop()
		defer s.steps.end(under, true)
		if err := back.Run(); err != nil {
			s.faults.add("undo", err)
			s.log.Error("undo what a job held", "job", id, "err", err)
		}
	})
}
