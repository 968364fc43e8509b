package policy

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// Match is a condition on one register argument: the masked value is one of In. The mask is part of the rule because the
// kernel looks at 32 bits of an int and the program chooses the rest.
type Match struct {
	Arg  int // 0 to 5
	Mask uint64
	In   []uint64
}

// Holds tells whether the arguments satisfy the condition.
func (m Match) Holds(args [6]uint64) bool {
	return slices.Contains(m.In, args[m.Arg]&m.Mask)
}

func (m Match) String() string {
	values := make([]string, len(m.In))
	for i, v := range m.In {
		values[i] = fmt.Sprintf("%#x", v)
	}
	return fmt.Sprintf("arg%d & %#x in {%s}", m.Arg, m.Mask, strings.Join(values, " "))
}

// Case is one line of a call's rules: when all of When hold, Action is what happens.
type Case struct {
	When   []Match // none: always
	Use    string  // When in words: "TIOCSTI", "a raw IP socket"; empty in the last case, which is what the others leave over
	Action Action
	Errno  syscall.Errno
	Rule   string
	Why    string
}

func (c Case) holds(args [6]uint64) bool {
	for _, m := range c.When {
		if !m.Holds(args) {
			return false
		}
	}
	return true
}

// Call is one system call of an architecture. The first case that holds decides; the last one always holds.
type Call struct {
	NR    uint32
	Name  string
	Cases []Case
}

func (c Call) decide(args [6]uint64) Verdict {
	for _, k := range c.Cases {
		if k.holds(args) {
			return Verdict{Action: k.Action, Errno: k.Errno, Rule: k.Rule, Why: k.Why}
		}
	}
	panic("policy: no case holds for " + c.Name)
}
