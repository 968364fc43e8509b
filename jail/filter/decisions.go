package filter

import (
	"fmt"
	"slices"

	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// test is a condition as libseccomp has it: args[arg] & mask == value.
type test struct {
	arg         int
	mask, value uint64
}

// path is one way through the decisions of a call: all tests hold, and the verdict is known.
type path struct {
	when    []test
	verdict policy.Verdict
}

// decisions turns the ordered cases of a call into rules that need no order. libseccomp has neither "first match wins"
// nor "otherwise" (what no rule matches gets the filter's one default action), so the cases become a tree: one argument
// at a time, a branch for each value that some case names and a branch for all others.
func decisions(c policy.Call) ([]path, error) {
	var paths []path
	if err := grow(c, nil, c.Cases, &paths); err != nil {
		return nil, err
	}
	return paths, nil
}

func grow(c policy.Call, when []test, cases []policy.Case, paths *[]path) error {
	cases = simplify(cases)
	if len(cases) == 0 {
		return fmt.Errorf("call %s: some arguments have no verdict", c.Name)
	}
	if len(cases[0].When) == 0 {
		k := cases[0]
		v := policy.Verdict{Action: k.Action, Errno: k.Errno, Rule: k.Rule}
		*paths = append(*paths, path{when: slices.Clone(when), verdict: v})
		return nil
	}
	arg, mask, values, err := next(cases)
	if err != nil {
		return fmt.Errorf("call %s: %w", c.Name, err)
	}
	for _, v := range values {
		if err := grow(c, append(slices.Clone(when), test{arg, mask, v}), given(cases, arg, v), paths); err != nil {
			return err
		}
	}
	for _, t := range otherwise(arg, mask, values) {
		if err := grow(c, append(slices.Clone(when), t), others(cases, arg), paths); err != nil {
			return err
		}
	}
	return nil
}

// simplify drops what is never reached, and what differs from the last case in its explanation only.
func simplify(cases []policy.Case) []policy.Case {
	if i := slices.IndexFunc(cases, func(k policy.Case) bool { return len(k.When) == 0 }); i >= 0 {
		cases = cases[:i+1]
	} else {
		return nil
	}
	last := cases[len(cases)-1]
	for n := len(cases); n > 1 && cases[n-2].Action == last.Action && cases[n-2].Errno == last.Errno; n-- {
		cases = append(slices.Clone(cases[:n-2]), last)
	}
	return cases
}

// next picks the first argument that a case looks at, with all values that are told apart. One mask an argument is all
// that the tree can do, and all that policies need.
func next(cases []policy.Case) (arg int, mask uint64, values []uint64, err error) {
	arg = 6
	for _, k := range cases {
		for _, m := range k.When {
			arg = min(arg, m.Arg)
		}
	}
	for _, k := range cases {
		for _, m := range k.When {
			if m.Arg != arg {
				continue
			}
			if mask != 0 && mask != m.Mask {
				return 0, 0, nil, fmt.Errorf("argument %d is looked at under two masks, %#x and %#x", arg, mask, m.Mask)
			}
			mask = m.Mask
			values = append(values, m.In...)
		}
	}
	if mask == 0 {
		return 0, 0, nil, fmt.Errorf("argument %d is looked at under an empty mask", arg)
	}
	slices.Sort(values)
	return arg, mask, slices.Compact(values), nil
}

// given keeps the cases that hold when the argument has the value, without the condition on it.
func given(cases []policy.Case, arg int, value uint64) []policy.Case {
	var left []policy.Case
	for _, k := range cases {
		holds, rest := true, []policy.Match{}
		for _, m := range k.When {
			if m.Arg == arg {
				holds = holds && slices.Contains(m.In, value)
			} else {
				rest = append(rest, m)
			}
		}
		if holds {
			k.When = rest
			left = append(left, k)
		}
	}
	return left
}

// others keeps the cases that do not look at the argument.
func others(cases []policy.Case, arg int) []policy.Case {
	return slices.DeleteFunc(slices.Clone(cases), func(k policy.Case) bool {
		return slices.ContainsFunc(k.When, func(m policy.Match) bool { return m.Arg == arg })
	})
}

// otherwise is two tests of which one always holds: the lowest bit of the mask is clear, or set. libseccomp tries the
// tests of an argument from the most to the least specific, so that they catch what no value has caught; it takes no
// test without a bit. check proves the order.
func otherwise(arg int, mask uint64, values []uint64) []test {
	low := mask & -mask
	both := []test{{arg, low, 0}, {arg, low, low}}
	return slices.DeleteFunc(both, func(t test) bool { return mask == low && slices.Contains(values, t.value) })
}
