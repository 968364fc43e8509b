// Package undo keeps the steps that take back what has been done, so that a function which acquires several things can
// give them back in reverse order, whichever step failed.
//
// It owns the order and nothing else. It never decides whether to undo: the caller calls Run or Release. Callers: the
// agent's spine. Privileges: none. A Stack belongs to one goroutine and is usable when zero.
package undo

import (
	"errors"
	"fmt"
	"slices"
)

// Stack is a list of steps to take back.
type Stack struct {
	steps []step
}

type step struct {
	name string
	fn   func() error
}

// Push adds the step that takes back what has just been done; the name goes into its error and is what Drop looks for.
func (s *Stack) Push(name string, fn func() error) {
	s.steps = append(s.steps, step{name, fn})
}

// Drop forgets the youngest step of that name, for something that is to stay after all, and reports whether there was one.
func (s *Stack) Drop(name string) bool {
	for i, st := range slices.Backward(s.steps) {
		if st.name == name {
			s.steps = slices.Delete(s.steps, i, i+1)
			return true
		}
	}
	return false
}

// Release forgets every step.
func (s *Stack) Release() { s.steps = nil }

// Names lists the steps in the order in which Run would take them.
func (s *Stack) Names() []string {
	var names []string
	for _, st := range slices.Backward(s.steps) {
		names = append(names, st.name)
	}
	return names
}

// Run takes the steps back, youngest first, and joins their errors: one that fails does not keep the others from being
// tried. Each step runs once; a second Run does nothing, so it may be deferred as well as called. Steps pushed by a step
// run too.
func (s *Stack) Run() error {
	var errs []error
	for len(s.steps) > 0 {
		last := s.steps[len(s.steps)-1]
		s.steps = s.steps[:len(s.steps)-1]
		if err := last.fn(); err != nil {
			errs = append(errs, fmt.Errorf("undo %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
