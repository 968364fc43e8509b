package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// Denial is a refusal in words, with the fields of the API's denial.
type Denial struct {
	Layer   string
	What    string
	Rule    string
	Errno   string
	Count   int64
	PID     int
	Program string
	Fix     []byte // JSON merge patch of the request that would allow it; nil: nothing may
	Why     string
	AtMS    int64
}

// otherVersion is the rule named when the policy allows a call that was refused: the warden records only what its own filter
// refuses, so that filter was made of another table than this.
const (
	otherVersion    = "syscall.other_version"
	otherVersionWhy = "this version of tolbooth allows the call, and the one that ran the job did not; run the job again"
)

// Syscall explains a refused call under the policy that the run had. Permitted are the extras that a request to this node may
// have: one that would allow the call is its Fix.
func Syscall(p policy.Policy, d jail.Denial, permitted []string) Denial {
	nr := uint32(d.NR)
	v := p.Evaluate(d.Arch, nr, d.Args)
	if v.Action == policy.Allow {
		v.Rule, v.Why = otherVersion, otherVersionWhy
	}
	fix, why := remedy(p.Change(), p.ExtraFor(d.Arch, nr, d.Args), permitted)
	return Denial{
		Layer:   "syscall",
		What:    what(p, d.Arch, nr, d.Args),
		Rule:    v.Rule,
		Errno:   errnoName(d.Errno, v.Errno),
		Count:   d.Count,
		PID:     d.PID,
		Program: printable(d.Program),
		Fix:     fix,
		Why:     v.Why + why,
		AtMS:    d.AtUS / 1000,
	}
}

// remedy is the change of the request by which it gets an extra, and what to say of it. A merge patch replaces lists, so the
// extras that the request had are in it.
func remedy(had policy.Change, extra string, permitted []string) (fix []byte, why string) {
	switch {
	case extra == "":
		return nil, ""
	case !slices.Contains(permitted, extra):
		return nil, fmt.Sprintf("; the extra %q would allow it, and this node does not offer it: its operator can, with the key extras", extra)
	}
	list, err := json.Marshal(append(slices.Clone(had.Extras), extra))
	if err != nil {
		panic("explain: " + err.Error()) // names of ours
	}
	return fmt.Appendf(nil, `{"policy":{"extras":%s}}`, list), fmt.Sprintf("; or ask for the extra %q", extra)
}

// what words a call: with its arguments when it came by the machine's own ABI, else by ABI and number.
func what(p policy.Policy, audit, nr uint32, args [6]uint64) string {
	abi, number, name := policy.Name(audit, nr)
	own := audit == p.AuditArch() && abi != "x32"
	switch {
	case own && name != "":
		return name + "(" + arguments(name, args) + ")"
	case own:
		return fmt.Sprintf("system call %d", int32(number))
	case abi == "":
		return fmt.Sprintf("system call %d of architecture %#x", int32(number), audit)
	case name != "":
		return fmt.Sprintf("%s system call %d (%s)", abi, number, name)
	}
	return fmt.Sprintf("%s system call %d", abi, int32(number))
}

// errnoName is the errno that the program got, or the policy's when the record has none.
func errnoName(recorded int, verdict syscall.Errno) string {
	errno := syscall.Errno(recorded)
	if recorded <= 0 {
		errno = verdict
	}
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", int(errno))
}

// printable keeps a process name from breaking lines, terminals or JSON. The kernel cuts names at 15 bytes, wherever a
// character ends.
func printable(name string) string {
	const longest = 64
	if len(name) > longest {
		name = name[:longest]
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
