package filter

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// instructionSize is the size of struct sock_filter (linux/filter.h).
const instructionSize = 8

// maxInstructions is BPF_MAXINSNS: the kernel loads no longer program.
const maxInstructions = 4096

// Return values of a filter (linux/seccomp.h). The lower 16 bits carry the errno.
const (
	retAllow = 0x7fff0000
	retTrace = 0x7ff00000
	retErrno = 0x00050000
)

// Program is a compiled filter.
type Program struct {
	code []instruction
	raw  []byte
}

// Bytes is the program as an array of struct sock_filter, ready for seccomp(2).
func (p *Program) Bytes() []byte { return slices.Clone(p.raw) }

// Len is the number of instructions.
func (p *Program) Len() int { return len(p.code) }

// instruction is struct sock_filter.
type instruction struct {
	op     uint16
	jt, jf uint8
	k      uint32
}

// decode reads what libseccomp exported. amd64 and arm64 are little-endian.
func decode(raw []byte) (*Program, error) {
	if len(raw) == 0 || len(raw)%instructionSize != 0 || len(raw) > maxInstructions*instructionSize {
		return nil, fmt.Errorf("decode filter: %d bytes are not 1 to %d instructions", len(raw), maxInstructions)
	}
	p := &Program{raw: raw, code: make([]instruction, 0, len(raw)/instructionSize)}
	for b := range slices.Chunk(raw, instructionSize) {
		p.code = append(p.code, instruction{
			op: binary.LittleEndian.Uint16(b),
			jt: b[2],
			jf: b[3],
			k:  binary.LittleEndian.Uint32(b[4:]),
		})
	}
	return p, nil
}

// answer is what a filter returns for a verdict.
func answer(v policy.Verdict) (uint32, error) {
	if v.Action == policy.Allow {
		return retAllow, nil
	}
	if v.Errno <= 0 || v.Errno > 4095 {
		return 0, fmt.Errorf("rule %s: refusal without an errno", v.Rule)
	}
	switch v.Action {
	case policy.Trace:
		return retTrace | uint32(v.Errno), nil
	case policy.Quiet:
		return retErrno | uint32(v.Errno), nil
	}
	return 0, fmt.Errorf("rule %s: unknown action %d", v.Rule, v.Action)
}
