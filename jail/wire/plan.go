package wire

import "golang.org/x/sys/unix"

// Mode is which plan a jail follows.
type Mode string

// The modes. Minimal has no syscall filter and no explainer.
const (
	Syd     Mode = "syd"
	Minimal Mode = "minimal"
)

// Engine is how the warden learns of refused calls and answers them.
type Engine string

// The engines. Both are given the same filter and refuse the same calls.
const (
	Notify Engine = "notify" // seccomp user notification: the kernel asks about refused calls and about nothing else
	Ptrace Engine = "ptrace" // every process of the job is traced
)

// Plan is a mode as data: what each stage does is read from it, and nothing asks for the mode by name.
type Plan struct {
	Namespaces uintptr // clone flags of init; the network namespace is joined by the warden before
	Chroot     bool    // the program is chrooted into the root; false: init pivots into it
	Filter     bool    // launch loads a seccomp filter
	Trace      bool    // the warden seizes the program before its first instruction
	Listen     bool    // launch hands the filter's listener to the warden
}

// Plan returns the mode's plan with an engine, which a mode without a filter does not have; false: there is no such plan.
func (m Mode) Plan(e Engine) (Plan, bool) {
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	switch {
	case m == Syd && e == Notify:
		return Plan{Namespaces: namespaces, Filter: true, Listen: true}, true
	case m == Syd && e == Ptrace:
		return Plan{Namespaces: namespaces, Filter: true, Trace: true}, true
	case m == Minimal && e == "":
		return Plan{Namespaces: namespaces, Chroot: true}, true
	}
	return Plan{}, false
}
