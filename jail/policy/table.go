package policy

import (
	"strings"
	"syscall"
)

// entry gives the same cases to several calls, named with spaces between them. A call that an architecture lacks is
// skipped there.
type entry struct {
	calls string
	cases []Case
}

// decisions is the table by call: all that differs from the container engines' list.
func decisions() map[string][]Case {
	decided := map[string][]Case{}
	for _, part := range [][]entry{otherProcesses(), namespaces(), kernel(), node(), optional(), obsolete(), arguments(), sockets(), cores(), merging()} {
		for _, e := range part {
			for _, name := range strings.Fields(e.calls) {
				if _, twice := decided[name]; twice {
					panic("policy: two entries for " + name)
				}
				decided[name] = e.cases
			}
		}
	}
	return decided
}

// refuse answers every use of a call with an errno, and tells the warden.
func refuse(errno syscall.Errno, why string) []Case {
	return []Case{{Action: Trace, Errno: errno, Why: why}}
}

// quiet answers every use of a call with an errno, and tells nobody.
func quiet(errno syscall.Errno, why string) []Case {
	return []Case{{Action: Quiet, Errno: errno, Why: why}}
}

// allow is a case that lets a use of the call through.
func allow(use string, when ...Match) Case {
	return Case{Use: use, When: when, Action: Allow}
}

// deny is a case that refuses a use of the call under a rule of its own.
func deny(rule string, errno syscall.Errno, use, why string, when ...Match) Case {
	return Case{Use: use, When: when, Action: Trace, Errno: errno, Rule: rule, Why: why}
}

// skip is a case that answers a use of the call as if it were done, and nobody is told.
func skip(rule, use, why string, when ...Match) Case {
	return Case{Use: use, When: when, Action: Skip, Rule: rule, Why: why}
}

// int32Arg looks at an argument as the kernel does when it takes an int or an unsigned int.
func int32Arg(arg int, in ...uint64) Match {
	return Match{Arg: arg, Mask: 0xffffffff, In: in}
}

// bits looks at some bits of an argument.
func bits(arg int, mask uint64, in ...uint64) Match {
	return Match{Arg: arg, Mask: mask, In: in}
}
