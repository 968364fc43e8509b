package cbpf

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// InstructionSize is the size of struct sock_filter in bytes (linux/filter.h).
const InstructionSize = 8

// MaxInstructions is BPF_MAXINSNS: the kernel loads no longer program.
const MaxInstructions = 4096

// Answers of a filter (linux/seccomp.h). The lower 16 bits of Trace and Errno carry data.
const (
	Allow  = 0x7fff0000
	Trace  = 0x7ff00000
	Notify = 0x7fc00000
	Errno  = 0x00050000

	ActionMask = 0xffff0000
	DataMask   = 0x0000ffff
)

// Broker is the data of Trace, in place of an errno, for a call that the warden makes itself and hands the outcome of over.
const Broker = 0xf000

// Program is a filter, decoded.
type Program struct {
	Code []Instruction
}

// Instruction is struct sock_filter.
type Instruction struct {
	Op     uint16
	JT, JF uint8
	K      uint32
}

// Decode reads an array of struct sock_filter. amd64 and arm64 are little-endian.
func Decode(raw []byte) (*Program, error) {
	if len(raw) == 0 || len(raw)%InstructionSize != 0 || len(raw) > MaxInstructions*InstructionSize {
		return nil, fmt.Errorf("decode filter: %d bytes are not 1 to %d instructions", len(raw), MaxInstructions)
	}
	p := &Program{Code: make([]Instruction, 0, len(raw)/InstructionSize)}
	for b := range slices.Chunk(raw, InstructionSize) {
		p.Code = append(p.Code, Instruction{
			Op: binary.LittleEndian.Uint16(b),
			JT: b[2],
			JF: b[3],
			K:  binary.LittleEndian.Uint32(b[4:]),
		})
	}
	return p, nil
}

// Notified is the program with every answer "trace" turned into "notify", so that one compiled filter serves both ways of
// explaining. A notification carries no data: whoever listens asks the original.
func (p *Program) Notified() *Program {
	out := &Program{Code: slices.Clone(p.Code)}
	for i, in := range out.Code {
		if in.Op == OpReturn && in.K&ActionMask == Trace {
			out.Code[i].K = Notify
		}
	}
	return out
}
