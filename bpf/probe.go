package bpf

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// attachers attach the two packet programs to a device. clsact comes first although tcx is newer: attaching to tcx waits
// for an RCU grace period for each program while it holds the lock of all network configuration (23 ms a job against 0.4 ms
// on kernel 6.18), and what tcx has to offer, order among several owners, does not matter on a device of our own.
var attachers = []struct {
	hook   Hook
	attach func(ifindex int, fromJail, toJail *ebpf.Program) error
}{
	{HookClsact, attachClsact},
	{HookTCX, attachTCX},
}

// chooseHook takes the first way of attaching that works, or only the wanted one.
func (e *Egress) chooseHook(want Hook) error {
	var errs []error
	for _, a := range attachers {
		if want != HookAuto && want != a.hook {
			continue
		}
		err := inScratchNamespace(func() error { return a.attach(1, e.objects.TbFromJail, e.objects.TbToJail) })
		if err == nil {
			e.hook, e.attach = a.hook, a.attach
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", a.hook, err))
	}
	if len(errs) == 0 {
		return fmt.Errorf("unknown hook %q", want)
	}
	return fmt.Errorf("attach packet programs to a device: %w", errors.Join(errs...))
}

// inScratchNamespace runs fn in a network namespace that goes away with its thread. The process's main thread would not go
// away but be parked there, and stand for the process in /proc/self: so when the scheduler offers it, another is taken.
func inScratchNamespace(fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			err := inScratchNamespace(fn)
			runtime.UnlockOSThread()
			done <- err
			return
		}
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("unshare(CLONE_NEWNET): %w", err)
			return
		}
		done <- fn()
	}()
	return <-done
}
