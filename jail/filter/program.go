package filter

import (
	"fmt"
	"slices"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// Program is a compiled filter.
type Program struct {
	*cbpf.Program
	raw []byte
}

// Bytes is the program as an array of struct sock_filter, ready for seccomp(2).
func (p *Program) Bytes() []byte { return slices.Clone(p.raw) }

// Len is the number of instructions.
func (p *Program) Len() int { return len(p.Code) }

// decode reads what libseccomp exported.
func decode(raw []byte) (*Program, error) {
	p, err := cbpf.Decode(raw)
	if err != nil {
		return nil, err
	}
	return &Program{Program: p, raw: raw}, nil
}

// answer is what a filter returns for a verdict.
func answer(v policy.Verdict) (uint32, error) {
	switch v.Action {
	case policy.Allow:
		return cbpf.Allow, nil
	case policy.Broker:
		return cbpf.Trace | cbpf.Broker, nil
	case policy.Skip:
		return cbpf.Errno, nil
	}
	if v.Errno <= 0 || v.Errno > 4095 {
		return 0, fmt.Errorf("rule %s: refusal without an errno", v.Rule)
	}
	switch v.Action {
	case policy.Trace:
		return cbpf.Trace | uint32(v.Errno), nil
	case policy.Quiet:
		return cbpf.Errno | uint32(v.Errno), nil
	}
	return 0, fmt.Errorf("rule %s: unknown action %d", v.Rule, v.Action)
}
