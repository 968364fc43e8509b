package filter

import (
	"fmt"
	"iter"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// check compares the program with the policy wherever they could differ.
func (p *Program) check(want policy.Policy) error {
	for c := range corners(want) {
		if err := p.compare(want, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *Program) compare(want policy.Policy, c cbpf.Call) error {
	v := want.Evaluate(c.Arch, c.NR, c.Args)
	expected, err := answer(v)
	if err != nil {
		return err
	}
	got, _, err := p.Run(&c)
	if err != nil {
		return err
	}
	if got != expected {
		return fmt.Errorf("call %d of architecture %#x with arguments %#x: answer %#x, policy says %#x", c.NR, c.Arch, c.Args, got, expected)
	}
	return nil
}

// corners are the calls worth comparing: every number (known, unknown, next to the marks in a number) by every ABI, and
// for a call with argument rules each combination of values that a rule names, their neighbours one bit away, and the
// same with bits set that the rule must not look at; and each combination where some have a value that no rule names.
func corners(p policy.Policy) iter.Seq[cbpf.Call] {
	return func(yield func(cbpf.Call) bool) {
		for _, nr := range numbers() {
			for _, arch := range architectures() {
				if !yield(cbpf.Call{NR: nr, Arch: arch}) || !yield(cbpf.Call{NR: nr, Arch: arch, Args: allOnes()}) {
					return
				}
			}
		}
		for c := range p.Calls() {
			for args := range argumentCorners(c) {
				if !yield(cbpf.Call{NR: c.NR, Arch: p.AuditArch(), Args: args}) {
					return
				}
			}
		}
	}
}

func numbers() []uint32 {
	list := []uint32{1 << 29, 1 << 30, 1<<30 - 1, 1 << 31, 1<<31 - 1, ^uint32(0), ^uint32(0) - 1}
	for nr := range uint32(1024) {
		list = append(list, nr, 1<<30|nr, 1<<31|nr, 1<<31|1<<30|nr)
	}
	return list
}

func architectures() []uint32 {
	return []uint32{unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, 0}
}

func allOnes() (args [6]uint64) {
	for i := range args {
		args[i] = ^uint64(0)
	}
	return args
}

// argumentCorners yields nothing for a call whose cases look at no argument.
func argumentCorners(c policy.Call) iter.Seq[[6]uint64] {
	var masks [6]uint64
	var values [6][]uint64
	for _, k := range c.Cases {
		for _, m := range k.When {
			masks[m.Arg] |= m.Mask
			values[m.Arg] = append(values[m.Arg], m.In...)
		}
	}
	for i := range values {
		slices.Sort(values[i])
		values[i] = slices.Compact(values[i])
	}
	return func(yield func([6]uint64) bool) {
		named := combine(values, 0, [6]uint64{}, func(args [6]uint64) bool { return neighbours(args, masks, yield) })
		if named {
			combine(withOthers(values, masks), 0, [6]uint64{}, func(args [6]uint64) bool { return plain(args, masks, yield) })
		}
	}
}

// withOthers adds two values that no rule names, an even and an odd one, so that several arguments at once have such.
func withOthers(values [6][]uint64, masks [6]uint64) [6][]uint64 {
	for i, mask := range masks {
		for _, v := range []uint64{mask, mask &^ (mask & -mask)} {
			if mask != 0 && !slices.Contains(values[i], v) {
				values[i] = append(slices.Clone(values[i]), v)
			}
		}
	}
	return values
}

// combine yields each combination of named values; an argument that no rule looks at stays 0. It reports whether to go
// on.
func combine(values [6][]uint64, arg int, args [6]uint64, yield func([6]uint64) bool) bool {
	if arg == len(values) {
		return yield(args)
	}
	if len(values[arg]) == 0 {
		return combine(values, arg+1, args, yield)
	}
	for _, v := range values[arg] {
		args[arg] = v
		if !combine(values, arg+1, args, yield) {
			return false
		}
	}
	return true
}

// plain yields the arguments, and the same with every bit outside the masks set.
func plain(args, masks [6]uint64, yield func([6]uint64) bool) bool {
	return yield(args) && yield(dirtied(args, masks))
}

func dirtied(args, masks [6]uint64) [6]uint64 {
	for i := range args {
		args[i] |= ^masks[i]
	}
	return args
}

// neighbours yields the arguments, the same with every bit outside the masks set, and both with each bit flipped.
func neighbours(args, masks [6]uint64, yield func([6]uint64) bool) bool {
	dirty := dirtied(args, masks)
	if !plain(args, masks, yield) {
		return false
	}
	for i, mask := range masks {
		if mask == 0 {
			continue
		}
		for bit := range 64 {
			near, nearDirty := args, dirty
			near[i] ^= 1 << bit
			nearDirty[i] ^= 1 << bit
			if !yield(near) || !yield(nearDirty) {
				return false
			}
		}
	}
	return true
}
