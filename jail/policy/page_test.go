package policy

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPage holds docs/policy.md, which is the table in words. Run with -update to write it anew, then read the difference.
func TestPage(t *testing.T) {
	const file = "../../docs/policy.md"
	got := page(mustDefault(t, "amd64"), mustDefault(t, "arm64"))
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the table says; go test ./jail/policy -update", file)
	}
}

const pageHead = `# The system call policy

Generated from the table in ` + "`jail/policy`" + ` by its test; what is here is what the filter does. It holds for the mode ` + "`syd`" + `;
` + "`minimal`" + ` has no filter. A call that is not listed is allowed.

The filter looks at the ABI first, then at the number, then at register arguments; of an argument that the kernel takes as a
32-bit number it looks at those 32 bits. It never looks at memory. A refused call answers the error in the table and does
nothing else. Calls that programs try and do without answer ` + "`ENOSYS`" + `, as an older kernel would, so that they fall back.
Every refusal is in the result's ` + "`denials`" + ` with its rule, save those marked *quiet*, which ordinary programs try many times. A call marked
*not done* is answered as if it were, since what the program wants by it, it has.

`

func page(policies ...Policy) []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	b.WriteString("## Calls whose arguments decide\n\nThe first line that fits decides.\n\n| call | with | answer | rule | why |\n| --- | --- | --- | --- | --- |\n")
	for _, line := range lines(policies, func(c Call) bool { return len(c.Cases) > 1 }) {
		b.WriteString(line)
	}
	b.WriteString("\n## Calls that are always refused\n\n| call | with | answer | rule | why |\n| --- | --- | --- | --- | --- |\n")
	for _, line := range lines(policies, func(c Call) bool { return len(c.Cases) == 1 && c.Cases[0].Action != Allow }) {
		b.WriteString(line)
	}
	for _, k := range []struct {
		what string
		v    Verdict
	}{{"any call of another ABI", Foreign()}, {"any number without a call", Unknown()}} {
		fmt.Fprintf(&b, "| %s | | %s | `%s` | %s |\n", k.what, errnoName(k.v.Errno), k.v.Rule, k.v.Why)
	}
	b.WriteString("\n## Extras\n\nWhat `policy.extras` of a request may ask for, where the node's key `extras` lists it.\n\n| extra | what it changes | calls |\n| --- | --- | --- |\n")
	for _, x := range Extras() {
		var calls []string
		for _, e := range extra(x.Name) {
			calls = append(calls, strings.Fields(e.calls)...)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", x.Name, x.Why, code(calls))
	}
	b.WriteString("\nWhere an extra looks at arguments, its lines come before those above:\n\n| extra | call | with | answer | why |\n| --- | --- | --- | --- | --- |\n")
	for _, x := range Extras() {
		for _, e := range extra(x.Name) {
			for _, k := range e.cases {
				if !usual(policies, e.calls, k.Use) {
					answer := map[Action]string{Allow: "allowed", Broker: "made by the warden"}[k.Action]
					if answer == "" {
						answer = errnoName(k.Errno)
					}
					why := k.Why
					if k.Action == Broker {
						why = ""
					}
					fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", x.Name, e.calls, k.Use, answer, why)
				}
			}
		}
	}
	b.WriteString("\n## Denials\n\nWhat `policy.deny` of a request may take away, on any node. A refusal by one has the rule `policy.` and its name.\n\n| name | what is taken away |\n| --- | --- |\n")
	for _, n := range Denials() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", n.Name, n.Why)
	}
	return b.Bytes()
}

// lines has a line for each case of the calls wanted, by name; a call that an architecture lacks says so.
func lines(policies []Policy, wanted func(Call) bool) []string {
	calls, on := map[string]Call{}, map[string][]string{}
	for _, p := range policies {
		for c := range p.Calls() {
			if wanted(c) {
				calls[c.Name] = c
				on[c.Name] = append(on[c.Name], p.Arch())
			}
		}
	}
	var names []string
	for name := range calls {
		names = append(names, name)
	}
	slices.Sort(names)
	var list []string
	for _, name := range names {
		what := "`" + name + "`"
		if len(on[name]) < len(policies) {
			what += " (" + strings.Join(on[name], ", ") + ")"
		}
		for i, k := range calls[name].Cases {
			use := k.Use
			if use == "" && len(calls[name].Cases) > 1 {
				use = "anything else"
			}
			answer, rule := "allowed", ""
			if k.Action != Allow {
				answer, rule = errnoName(k.Errno), "`"+k.Rule+"`"
			}
			if k.Action == Skip {
				answer = "0, *not done*"
			}
			if k.Action == Quiet {
				answer += ", *quiet*"
			}
			if i > 0 {
				what = ""
			}
			list = append(list, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", what, use, answer, rule, k.Why))
		}
	}
	return list
}

// usual tells whether the default has a case of these words; a case that needs none is in every table.
func usual(policies []Policy, call, use string) bool {
	return use == "" || slices.ContainsFunc(policies, func(p Policy) bool {
		c, _ := p.Lookup(call)
		return slices.ContainsFunc(c.Cases, func(k Case) bool { return k.Use == use })
	})
}

func code(names []string) string {
	return "`" + strings.Join(names, "` `") + "`"
}
