package policy

import "syscall"

// Action is what happens to a call.
type Action uint8

// The actions. The zero value is none of them, so that a forgotten one is noticed.
const (
	Allow  Action = iota + 1
	Trace         // refused with Errno; the warden hears of it
	Quiet         // refused with Errno in the kernel, without a stop
	Skip          // answered as if it were done, and not done
	Broker        // not made by the program: the warden makes the call from the register arguments and hands over what it opened
)

func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Trace:
		return "trace"
	case Quiet:
		return "quiet"
	case Skip:
		return "skip"
	case Broker:
		return "broker"
	}
	return "none"
}

// Verdict is what the policy says to one call.
type Verdict struct {
	Action Action
	Errno  syscall.Errno // of a refused call, else 0
	Rule   string        // of a refused or skipped call: "syscall.ptrace", "policy.processes"; of a brokered one: the rule that it is an exception to
	Why    string        // one sentence: why it is refused and what to do instead
}
