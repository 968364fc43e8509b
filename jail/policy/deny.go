package policy

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The denials with names of their own: what a request may take away from itself.
const (
	DenyExecOutsideBase = "execve_outside_base"
	DenyProcesses       = "processes"
	DenySockets         = "sockets"
	denyCall            = "syscall." // and the name of any call
)

// Denials are the names that Change.Deny may have; the last stands for one name a call.
func Denials() []Named {
	return []Named{
		{DenyExecOutsideBase, "no program is executed, nor code mapped, from the directories that the job can write to (Landlock, and mounts without exec) or from memory files (memfd_create)"},
		{DenyProcesses, "no new processes; threads, and another program in place of the first, stay"},
		{DenySockets, "no sockets but unix ones"},
		{denyCall + "NAME", "the system call NAME, whatever its arguments"},
	}
}

// indispensable are the calls between the filter and the first instruction of the program, and those by which it ends; with what
// for. The same request fits every node, so that one explainer's need counts for both.
var indispensable = map[string]string{
	"execve":       "no program starts without this call",
	"exit":         "no thread ends without this call",
	"exit_group":   "no program ends without this call",
	"rt_sigreturn": "no signal handler returns without this call",
	"sendmsg":      "by this call the filter's listener is handed to the warden, before the program starts",
}

// denial is what a name takes away, as cases that replace all others of a call; ok is false when there is no such name.
func denial(name string) (list []entry, ok bool) {
	no := func(use, why string, when ...Match) Case {
		return Case{Use: use, When: when, Action: Trace, Errno: unix.EPERM, Rule: rulePolicy + name, Why: why}
	}
	const processes = "the request takes new processes away (policy.deny: processes); leave that out, or do the work in threads"
	const sockets = "the request takes sockets away (policy.deny: sockets); leave that out, or use unix sockets"
	switch name {
	case DenyExecOutsideBase:
		// No filter sees the path that a call names: jail/launch and the mounts do the rest. A memory file lies below none.
		return []entry{{"memfd_create", []Case{no("", "a memory file could be executed, which the request takes away (policy.deny: "+name+"); leave that out, or use a file")}}}, true
	case DenyProcesses:
		return []entry{
			{"fork vfork", []Case{no("", processes)}},
			{"clone", []Case{
				allow("a thread", bits(0, newNamespace|tracerChoice|unix.CLONE_THREAD, unix.CLONE_THREAD)),
				no("", processes),
			}},
		}, true
	case DenySockets:
		return []entry{{"socket", []Case{unixSocket(), no("", sockets)}}}, true
	}
	call, ok := strings.CutPrefix(name, denyCall)
	if !ok || !isCall(call) {
		return nil, false
	}
	return []entry{{call, []Case{no("", "the request takes this call away (policy.deny: "+name+"); leave that out")}}}, true
}

// isCall tells whether some architecture has a call of the name: the same request fits all of them.
func isCall(name string) bool {
	return name != "" && (slices.Contains(amd64Names[:], name) || slices.Contains(arm64Names[:], name))
}
