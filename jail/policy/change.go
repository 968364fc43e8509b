package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Change is how a run's policy differs from the default. What is denied outranks what an extra allows.
type Change struct {
	Extras []string // names of Extras
	Deny   []string // names of Denials
}

// Empty tells that nothing is changed.
func (c Change) Empty() bool { return len(c.Extras)+len(c.Deny) == 0 }

// ChangeError says which name of a Change is wrong, and why.
type ChangeError struct {
	Deny bool // the name is one of Deny, else of Extras
	Name string
	Why  string
}

func (e *ChangeError) Error() string {
	list := "extras"
	if e.Deny {
		list = "deny"
	}
	return fmt.Sprintf("change the system call policy: %s: %q: %s", list, e.Name, e.Why)
}

// normal is the change in one order, each name once, when every name is right and the names go together.
func (c Change) normal() (Change, error) {
	c = Change{Extras: sorted(c.Extras), Deny: sorted(c.Deny)}
	for _, name := range c.Extras {
		if extra(name) == nil {
			return c, &ChangeError{false, name, "is not one of: " + names(Extras())}
		}
	}
	for _, name := range c.Deny {
		if _, ok := denial(name); !ok {
			return c, &ChangeError{true, name, "is not one of: " + names(Denials())}
		}
		if call, one := strings.CutPrefix(name, denyCall); one && indispensable[call] != "" {
			return c, &ChangeError{true, name, "cannot be taken away: " + indispensable[call]}
		}
		switch {
		case slices.Contains(c.Extras, IOURing) && name != DenyExecOutsideBase && name != DenyProcesses:
			return c, &ChangeError{true, name, "io_uring does the same past every filter; leave out that extra, or this"}
		case slices.Contains(c.Extras, UserNS) && name == DenyExecOutsideBase:
			return c, &ChangeError{true, name, "needs Landlock, which forbids the mounts of userns; leave out that extra, or this"}
		}
	}
	return c, nil
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

func names(list []Named) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = n.Name
	}
	return strings.Join(words, ", ")
}

// apply puts the change's cases over the table's.
func (c Change) apply(decided map[string][]Case) {
	replace := func(list []entry) {
		for _, e := range list {
			for name := range strings.FieldsSeq(e.calls) {
				decided[name] = e.cases
			}
		}
	}
	for _, name := range c.Extras {
		replace(extra(name))
	}
	for _, name := range c.Deny {
		list, _ := denial(name)
		replace(list)
	}
}

// ExtraFor is the extra that would allow a call that this policy refuses; empty: none would. What the run denied itself, no
// extra brings back.
func (p Policy) ExtraFor(audit, nr uint32, args [6]uint64) string {
	v := p.Evaluate(audit, nr, args)
	if v.Action != Trace && v.Action != Quiet || strings.HasPrefix(v.Rule, rulePolicy) || v.Rule == Foreign().Rule {
		return ""
	}
	_, _, call := Name(audit, nr)
	for _, x := range Extras() {
		for _, e := range extra(x.Name) {
			if !slices.Contains(strings.Fields(e.calls), call) {
				continue
			}
			if a := (Call{Name: call, Cases: e.cases}).decide(args).Action; a == Allow || a == Broker {
				return x.Name
			}
		}
	}
	return ""
}
