package warden

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

// ruling is what our own filter says to a call that reached the warden.
type ruling int

// The rulings. Whatever else comes, the call does not run.
const (
	notOurs  ruling = iota // our filter allows it: another filter asked for a tracer
	refused                // with an errno
	brokered               // the warden makes the call
)

const maxErrno = 4095 // what a system call can return

// rule asks the program that launch was given. What comes with a stop is not taken for it, since another filter may have put it
// there (none of the job's, which the policy lets install none; but nothing here rests on that), and nothing comes with a notification.
func (r *run) rule(call *cbpf.Call) (ruling, unix.Errno, error) {
	answer, _, err := r.filter.Run(call)
	if err != nil {
		return refused, unix.ENOSYS, fmt.Errorf("ask the filter: %w", err)
	}
	data := answer & cbpf.DataMask
	switch {
	case answer&cbpf.ActionMask != cbpf.Trace:
		return notOurs, unix.ENOSYS, nil // as a kernel without a tracer says
	case data == cbpf.Broker && r.plan.Listen && r.start.RawSocket:
		return brokered, 0, nil
	case data == 0 || data > maxErrno:
		return refused, unix.EPERM, nil
	}
	return refused, unix.Errno(data), nil
}
