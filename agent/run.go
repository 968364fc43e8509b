package agent

import (
	"context"
	"errors"
	"fmt"

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

	p.Enter(api.StateStarting)

	place, err := s.places.Take(ctx, w)
	if err != nil {
		return r.startFailed(ctx, "prepare the jail", err)
	}
	back.Push("give the place back", place.Release)
	r.timer.step(&r.Timings.Jail)

	tree, err := s.trees.Make(ctx, w, place)
	if err != nil {
		return r.startFailed(ctx, "open the workspace", err)
	}
	back.Push("discard the tree", tree.Discard)
	back.Push("end every process", place.kill)
	r.timer.step(&r.Timings.Workspace)

	cpus, give := s.cpus.take(w.Limits.CPUs.Value)
	back.Push("give the CPUs back", func() error { give(); return nil })
	if err := place.build(ctx, tree, memoryOf(w.Limits), cpus); err != nil {
		return r.startFailed(ctx, "build the root", err)
	}
	r.timer.step(&r.Timings.Jail)

	plug, err := s.nets.Plug(w, place, p.Deny)
	if err != nil {
		return r.startFailed(ctx, "set up the network", err)
	}
	back.Push("unplug the network", plug.Close)
	r.timer.step(&r.Timings.Network)

	if err := place.group.SetLimits(w.cgroupLimits()); err != nil {
		return r.startFailed(ctx, "set the limits", err)
	}
	if err := place.own(w.Stdin); err != nil {
		return r.startFailed(ctx, "hand stdin over", err)
	}
	spec, err := s.jailSpec(w, place, tree.Quota(), cpus, p.Notify())
	if err != nil {
		return r.startFailed(ctx, "compile the system call policy", err)
	}
	proc, err := place.cell.Start(ctx, spec)
	if err != nil {
		return r.startFailed(ctx, "start the command", err)
	}
	r.timer.step(&r.Timings.Jail)
	p.Started(live{proc, plug})
	p.Enter(api.StateRunning)

	exit := s.await(ctx, w, proc, tree, place.group)
	if err := place.kill(); err != nil { // no writer survives into the flush
		r.problem(fmt.Errorf("end the processes of the job: %w", err))
	}
	r.timer.step(&r.Timings.Run)

	r.exited(w, exit)
	printed := r.printed(w)
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
// it at once. The wait itself is not cancelled: each of those makes the warden kill the jail and report.
func (s *spine) await(ctx context.Context, w *work, proc running, t tree, g group) jail.Exit {
	watch, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	stop := context.AfterFunc(ctx, func() {
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
	return exit
}

// finish undoes in the background what a finished job still holds.
func (s *spine) finish(back *undo.Stack, id string) {
	s.undoing.Go(func() {
		if err := back.Run(); err != nil {
			s.faults.add("undo", err)
			s.log.Error("undo what a job held", "job", id, "err", err)
		}
	})
}
