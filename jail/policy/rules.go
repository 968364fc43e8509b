package policy

import (
	"slices"
	"strings"
)

// Rule is one line of the table for people: what differs from "allowed", and why.
type Rule struct {
	ID     string   // "syscall.bpf"
	Calls  []string // that it refuses, by name
	Use    string   // of the call that it refuses, in words; empty: any, or any that no other rule is about
	When   string   // the same as a condition on the arguments
	Action Action
	Errno  string // "EPERM"
	Why    string
}

// Rules is every refusal of the policy, in the order of call numbers.
func (p Policy) Rules() []Rule {
	rules := []Rule{}
	for c := range p.Calls() {
		for _, k := range c.Cases {
			if k.Action == Allow || k.Action == Broker || k.Action == Skip {
				continue
			}
			rules = append(rules, Rule{ID: k.Rule, Calls: []string{c.Name}, Use: k.Use, When: words(k.When), Action: k.Action, Errno: errnoName(k.Errno), Why: k.Why})
		}
	}
	for _, v := range []Verdict{Foreign(), Unknown()} {
		rules = append(rules, Rule{ID: v.Rule, Action: v.Action, Errno: errnoName(v.Errno), Why: v.Why})
	}
	return rules
}

// Allowed is the names of the calls that are let through, always or with some arguments.
func (p Policy) Allowed() []string {
	names := []string{}
	for c := range p.Calls() {
		if slices.ContainsFunc(c.Cases, func(k Case) bool { return k.Action == Allow || k.Action == Broker }) {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

func words(when []Match) string {
	parts := make([]string, len(when))
	for i, m := range when {
		parts[i] = m.String()
	}
	return strings.Join(parts, " and ")
}
