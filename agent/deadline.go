package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/tolbooth-dev/tolbooth/internal/undo"
)

// errNoAnswer is the error of a step that was left behind: the kernel did not come back with it.
var errNoAnswer = errors.New("the node's kernel does not answer")

// hurry is how long a step may go on that nobody wants any more, since its job was cancelled.
const hurry = 5 * time.Second

// attempt is what the steps of one start have in common.
type attempt struct {
	ctx   context.Context
	steps *steps
	back  *undo.Stack
	job   string        // empty: the step is the node's own
	limit time.Duration // of each step; 0: a step takes the time it takes, until ctx ends
}

// unbounded is the same attempt, for a step that may wait for other jobs and for a store.
func (a attempt) unbounded() attempt {
	a.limit = 0
	return a
}

// returned is what a step came back with.
type returned[T any] struct {
	value T
	err   error
	panic string // empty: it did not
}

// within runs one step of a start, and leaves it behind when it does not come back in time: a system call that blocks in
// the kernel can be ended by nobody. What such a step holds, and all that was acquired before it, stays taken until it does
// come back: waiting for that is pushed onto the undo stack, so that everything is undone in its order, the step's own value
// by late. late may be nil.
//
// An error begins with the name. The step sees a cancelled ctx when it has been left.
func within[T any](a attempt, name string, do func(context.Context) (T, error), late func(T) error) (T, error) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	patient := hangs
	if a.limit == 0 {
		patient = math.MaxInt64 // that it takes long says nothing of the kernel
	}
	under := a.steps.add(&step{name: name, job: a.job, patient: patient, start: true})
	done := make(chan returned[T], 1)
	go func() {
		r := call(ctx, do)
		a.steps.end(under, r.err == nil && r.panic == "")
		done <- r
	}()

	var expired <-chan time.Time
	if a.limit > 0 {
		timer := time.NewTimer(a.limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case r := <-done:
		return r.unwrap(name)
	case <-expired:
	case <-a.ctx.Done():
		timer := time.NewTimer(hurry)
		defer timer.Stop()
		select {
		case r := <-done:
			return r.unwrap(name)
		case <-timer.C:
		}
	}
	cancel(errNoAnswer)
	a.steps.leave(under)
	a.back.Push("what came of a step that hung: "+name, func() error {
		r := <-done
		switch {
		case r.panic != "":
			return errors.New(r.panic)
		case r.err != nil || late == nil:
			return r.err
		}
		return late(r.value)
	})
	var none T
	return none, fmt.Errorf("%s: %w: this step has not come back within %s, and what was acquired for it stays taken until it does",
		name, errNoAnswer, time.Since(under.since).Round(time.Millisecond))
}

// within is a step that acquires nothing.
func (a attempt) within(name string, do func(context.Context) error) error {
	_, err := within(a, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) }, nil)
	return err
}

// call runs a step. A panic is carried over to who waits for the step: there it ends one job, here it would end the agent.
func call[T any](ctx context.Context, do func(context.Context) (T, error)) (r returned[T]) {
	defer func() {
		if p := recover(); p != nil {
			r.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	r.value, r.err = do(ctx)
	return r
}

func (r returned[T]) unwrap(name string) (T, error) {
	if r.panic != "" {
		panic(r.panic)
	}
	if r.err != nil {
		r.err = fmt.Errorf("%s: %w", name, r.err)
	}
	return r.value, r.err
}
