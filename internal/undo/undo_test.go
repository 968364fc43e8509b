package undo

import (
	"errors"
	"slices"
	"testing"
)

func TestRunIsReverseOnceAndJoinsErrors(t *testing.T) {
	var s Stack
	var ran []string
	broken := errors.New("broken")
	push := func(name string, err error) {
		s.Push(name, func() error { ran = append(ran, name); return err })
	}
	push("a", nil)
	push("b", broken)
	push("c", nil)
	push("d", errors.New("late"))
	if got, want := s.Names(), []string{"d", "c", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %v, want %v", got, want)
	}
	err := s.Run()
	if want := []string{"d", "c", "b", "a"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if !errors.Is(err, broken) || err.Error() != "undo d: late\nundo b: broken" {
		t.Errorf("error %q", err)
	}
	if err := s.Run(); err != nil || len(ran) != 4 {
		t.Errorf("second Run: %v, ran %v", err, ran)
	}
}

func TestDropForgetsTheYoungestOfItsName(t *testing.T) {
	var s Stack
	var ran []string
	for _, id := range []string{"1", "2"} {
		s.Push("discard", func() error { ran = append(ran, id); return nil })
	}
	if !s.Drop("discard") || s.Drop("other") {
		t.Error("Drop reports wrongly")
	}
	if err := s.Run(); err != nil || !slices.Equal(ran, []string{"1"}) {
		t.Errorf("ran %v, error %v", ran, err)
	}
}

func TestReleaseForgetsAll(t *testing.T) {
	var s Stack
	s.Push("x", func() error { t.Error("ran"); return nil })
	s.Release()
	if err := s.Run(); err != nil {
		t.Error(err)
	}
}

func TestAStepMayPush(t *testing.T) {
	var s Stack
	ran := false
	s.Push("outer", func() error {
		s.Push("inner", func() error { ran = true; return nil })
		return nil
	})
	if err := s.Run(); err != nil || !ran {
		t.Errorf("inner ran: %v, error %v", ran, err)
	}
}
