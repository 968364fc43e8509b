package resolver

import (
	"strings"

	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/netns"
)

// Rules are what a job may look up. Deny outranks Allow, port by port.
type Rules struct {
	None  bool // the job has no network: every name is refused
	Open  bool // names that no rule mentions are allowed too: the job may reach any address
	Allow []netns.NameRule
	Deny  []netns.NameRule
}

// verdict is what the rules say about a name.
type verdict struct {
	refused string      // the rule that refuses, or empty
	ports   []bpf.Ports // to pin the name's addresses with; none under Open, where addresses need no pin
	counted bool        // allowed without being named in full, so that the job could make it up
}

// table finds the rules of a name in one step a label, however many rules there are.
type table struct {
	none, open  bool
	allow, deny ruleMap
}

type ruleMap struct{ exact, below map[string][]bpf.Ports }

func newTable(r Rules) *table {
	return &table{none: r.None, open: r.Open, allow: newRuleMap(r.Allow), deny: newRuleMap(r.Deny)}
}

func newRuleMap(rules []netns.NameRule) ruleMap {
	m := ruleMap{exact: map[string][]bpf.Ports{}, below: map[string][]bpf.Ports{}}
	for _, r := range rules {
		into := m.exact
		if r.Wildcard {
			into = m.below
		}
		into[r.Name] = append(into[r.Name], bpf.Ports{Low: r.Low, High: r.High, Protocols: r.Protocols})
	}
	return m
}

// find returns the ports of every rule that names the name.
func (m ruleMap) find(name string) (ports []bpf.Ports, exactly bool) {
	ports = append(ports, m.exact[name]...)
	exactly = len(ports) > 0
	for {
		_, parent, ok := strings.Cut(name, ".")
		if !ok {
			return ports, exactly
		}
		ports = append(ports, m.below[parent]...)
		name = parent
	}
}

// judge decides on a canonical name.
func (t *table) judge(name string) verdict {
	if t.none {
		return verdict{refused: RuleNone}
	}
	deny, _ := t.deny.find(name)
	if t.open {
		// Addresses are open, so a name is closed whole or not at all.
		if len(deny) > 0 {
			return verdict{refused: RuleDeny}
		}
		return verdict{counted: true}
	}
	allow, exactly := t.allow.find(name)
	if len(allow) == 0 {
		if len(deny) > 0 {
			return verdict{refused: RuleDeny}
		}
		return verdict{refused: RuleName}
	}
	ports := bpf.MergePorts(allow, deny)
	if len(ports) == 0 {
		return verdict{refused: RuleDeny}
	}
	return verdict{ports: ports, counted: !exactly}
}
