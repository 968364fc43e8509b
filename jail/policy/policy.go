package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// x32Bit marks calls of the x32 ABI in the numbers of amd64 (asm/unistd.h).
const x32Bit = 0x40000000

// Policy is the complete table of one architecture.
type Policy struct {
	arch   string
	audit  uint32
	calls  []Call // indexed by number; a number without a call has no name
	hash   string
	change Change
}

// Prefixes of rules: of the table, and of what a run denied itself.
const (
	ruleCall   = "syscall."
	rulePolicy = "policy."
)

// Default is the policy of every job that asks for no other. The architecture is named as Go names it: amd64 or arm64.
func Default(arch string) (Policy, error) { return For(arch, Change{}) }

// For is the default with a change. An error about the change is a *ChangeError.
func For(arch string, c Change) (Policy, error) {
	p := Policy{arch: arch}
	var names []string
	switch arch {
	case "amd64":
		p.audit, names = unix.AUDIT_ARCH_X86_64, amd64Names[:]
	case "arm64":
		p.audit, names = unix.AUDIT_ARCH_AARCH64, arm64Names[:]
	default:
		return Policy{}, fmt.Errorf("make system call policy: architecture %q is not one of amd64, arm64", arch)
	}
	var err error
	if p.change, err = c.normal(); err != nil {
		return Policy{}, err
	}
	allowed, decided := base(arch), decisions()
	p.change.apply(decided)
	p.calls = make([]Call, len(names))
	for nr, name := range names {
		if name != "" {
			p.calls[nr] = Call{NR: uint32(nr), Name: name, Cases: cases(name, decided, allowed)}
		}
	}
	p.hash = p.fingerprint()
	return p, nil
}

// cases are the rules of one call: the table's own, else what the container engines say.
func cases(name string, decided map[string][]Case, allowed map[string]bool) []Case {
	own, ok := decided[name]
	switch {
	case ok:
	case allowed[name]:
		own = []Case{{Action: Allow}}
	default:
		own = refuse(unix.ENOSYS, "it is new or rare and not on the list of calls that jobs need")
	}
	own = slices.Clone(own)
	for i := range own {
		switch {
		case own[i].Action == Allow || strings.HasPrefix(own[i].Rule, rulePolicy):
		case own[i].Rule == "":
			own[i].Rule = ruleCall + name
		default:
			own[i].Rule = ruleCall + own[i].Rule
		}
	}
	return own
}

// Reserving is the policy of a run whose disk use the file system itself holds to a limit: what fallocate reserves is counted
// there when it is reserved, so the call is allowed. A run that denied itself the call is still refused it.
func (p Policy) Reserving() Policy {
	i := slices.IndexFunc(p.calls, func(c Call) bool { return c.Name == "fallocate" })
	if slices.ContainsFunc(p.calls[i].Cases, func(c Case) bool { return strings.HasPrefix(c.Rule, rulePolicy) }) {
		return p
	}
	p.calls = slices.Clone(p.calls)
	p.calls[i].Cases = []Case{allow("")}
	p.hash = p.fingerprint()
	return p
}

// Arch is the architecture the policy is for, as Go names it.
func (p Policy) Arch() string { return p.arch }

// AuditArch is the value that the kernel gives the filter for the architecture's own ABI.
func (p Policy) AuditArch() uint32 { return p.audit }

// Change is how the policy differs from the default, each list in order and without repetitions.
func (p Policy) Change() Change { return p.change }

// Hash names what the policy decides: equal hashes make equal filters. Reasons and rule names are not part of it.
func (p Policy) Hash() string { return p.hash }

func (p Policy) fingerprint() string {
	h := sha256.New()
	fmt.Fprintln(h, p.arch, Unknown().Errno, Foreign().Errno)
	for c := range p.Calls() {
		for _, k := range c.Cases {
			fmt.Fprintln(h, c.NR, k.When, uint8(k.Action), int(k.Errno))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Calls are the calls of the architecture by number.
func (p Policy) Calls() func(yield func(Call) bool) {
	return func(yield func(Call) bool) {
		for _, c := range p.calls {
			if c.Name != "" && !yield(c) {
				return
			}
		}
	}
}

// Lookup finds a call by its name.
func (p Policy) Lookup(name string) (Call, bool) {
	for c := range p.Calls() {
		if c.Name == name {
			return c, true
		}
	}
	return Call{}, false
}

// Evaluate says what happens to a call. Audit is the ABI it came in by (AUDIT_ARCH_*), nr its number as the kernel has
// it, which is all ones for -1.
func (p Policy) Evaluate(audit, nr uint32, args [6]uint64) Verdict {
	if audit != p.audit || p.isX32(nr) {
		return Foreign()
	}
	if uint64(nr) >= uint64(len(p.calls)) || p.calls[nr].Name == "" {
		return Unknown()
	}
	return p.calls[nr].decide(args)
}

// isX32 leaves -1 out: it has the bit too, but is a number that no ABI has.
func (p Policy) isX32(nr uint32) bool {
	return p.arch == "amd64" && nr >= x32Bit && nr != ^uint32(0)
}

// Foreign is the verdict on every call through another ABI of the machine. ENOSYS is what a kernel without it says.
func Foreign() Verdict {
	return Verdict{Trace, unix.ENOSYS, "syscall.abi",
		"only 64-bit programs run here, since the 32-bit and x32 calls would be a second way past every rule; build the program for the machine's own 64-bit ABI"}
}

// Unknown is the verdict on a number that the table does not have: newer than this build, or made up.
func Unknown() Verdict {
	return Verdict{Trace, unix.ENOSYS, "syscall.unknown",
		"this version of tolbooth does not know a call with that number and answers as an older kernel would; use the call that it replaces"}
}
