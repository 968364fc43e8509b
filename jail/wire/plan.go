package wire

import "golang.org/x/sys/unix"

// Mode is which plan a jail follows.
type Mode string

// The modes. Minimal has no syscall filter and no tracer.
const (
	Syd     Mode = "syd"
	Minimal Mode = "minimal"
)

// Plan is a mode as data: what each stage does is read from it, and nothing asks for the mode by name.
type Plan struct {
	Namespaces uintptr // clone flags of init; the network namespace is joined by the warden before
	Chroot     bool    // the program is chrooted into the root; false: init pivots into it
	Filter     bool    // launch loads a seccomp filter
	Trace      bool    // the warden seizes the program before its first instruction
}

// Plan returns the mode's plan; false: there is no such mode.
func (m Mode) Plan() (Plan, bool) {
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	switch m {
	case Syd:
		return Plan{Namespaces: namespaces, Filter: true, Trace: true}, true
	case Minimal:
		return Plan{Namespaces: namespaces, Chroot: true}, true
	}
	return Plan{}, false
}
