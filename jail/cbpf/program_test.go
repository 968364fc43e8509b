package cbpf

import (
	"encoding/binary"
	"strings"
	"testing"
)

func encode(code []Instruction) []byte {
	var b []byte
	for _, in := range code {
		b = append(binary.LittleEndian.AppendUint16(b, in.Op), in.JT, in.JF)
		b = binary.LittleEndian.AppendUint32(b, in.K)
	}
	return b
}

func TestDecodeRefuses(t *testing.T) {
	for name, raw := range map[string][]byte{
		"nothing": nil, "half an instruction": make([]byte, 4), "one and a bit": make([]byte, 9), "too many": make([]byte, (MaxInstructions+1)*InstructionSize),
	} {
		if p, err := Decode(raw); err == nil {
			t.Errorf("%s: decoded to %d instructions", name, len(p.Code))
		}
	}
	if p, err := Decode(make([]byte, MaxInstructions*InstructionSize)); err != nil || len(p.Code) != MaxInstructions {
		t.Errorf("the longest program: %v", err)
	}
}

// TestNotified: traces become notifications, whatever their data, and nothing else changes; the original is left alone.
func TestNotified(t *testing.T) {
	code := []Instruction{
		{Op: OpLoadWord, K: 0}, {Op: OpEqual, K: Trace | 1, JF: 1}, {Op: OpReturn, K: Trace | 1}, {Op: OpReturn, K: Trace | Broker},
		{Op: OpReturn, K: Errno | 1}, {Op: OpReturn, K: Allow},
	}
	p := &Program{Code: code}
	answers := []uint32{}
	for i, in := range p.Notified().Code {
		switch {
		case in.Op == OpReturn:
			answers = append(answers, in.K)
		case in != code[i]:
			t.Errorf("instruction %d became %+v", i, in)
		}
	}
	if want := []uint32{Notify, Notify, Errno | 1, Allow}; len(answers) != 4 || [4]uint32(answers) != [4]uint32(want) {
		t.Errorf("%#x, want %#x", answers, want)
	}
	if p.Code[2].K != Trace|1 {
		t.Error("the original changed")
	}
}

// TestRunRefuses: what a filter of ours never has ends a run with an error, and never with an answer.
func TestRunRefuses(t *testing.T) {
	answer := Instruction{Op: OpReturn, K: Allow}
	for name, c := range map[string]struct {
		code  []Instruction
		words string
	}{
		"no return":               {[]Instruction{{Op: OpLoadWord}}, "past the last"},
		"a jump out":              {[]Instruction{{Op: OpJump, K: 1}, answer}, "past the last"},
		"the longest jump":        {[]Instruction{{Op: OpLoadWord}, {Op: OpJump, K: ^uint32(0)}, answer}, "past the last"},
		"a test that jumps out":   {[]Instruction{{Op: OpAtLeast, K: 0, JT: 255}, answer}, "past the last"},
		"the instruction pointer": {[]Instruction{{Op: OpLoadWord, K: 8}, answer}, "load from offset 8"},
		"its upper half":          {[]Instruction{{Op: OpLoadWord, K: 12}, answer}, "load from offset 12"},
		"behind the arguments":    {[]Instruction{{Op: OpLoadWord, K: 64}, answer}, "load from offset 64"},
		"the last offset":         {[]Instruction{{Op: OpLoadWord, K: ^uint32(0) - 3}, answer}, "load from offset"},
		"between two words":       {[]Instruction{{Op: OpLoadWord, K: 18}, answer}, "load from offset 18"},
		"a load of a byte":        {[]Instruction{{Op: 0x30}, answer}, "unknown operation 0x30"},
		"a return of A":           {[]Instruction{{Op: 0x16}}, "unknown operation 0x16"},
		"zeros":                   {[]Instruction{{}}, "unknown operation 0x0"},
	} {
		if got, _, err := (&Program{Code: c.code}).Run(&Call{}); err == nil || !strings.Contains(err.Error(), c.words) || got != 0 {
			t.Errorf("%s: answer %#x, %v", name, got, err)
		}
	}
}

// FuzzRun: whatever the bytes and the call, a run ends after at most one step an instruction, with an answer of the program's own.
func FuzzRun(f *testing.F) {
	f.Add(encode([]Instruction{{Op: OpLoadWord, K: 4}, {Op: OpEqual, K: Native, JF: 1}, {Op: OpReturn, K: Allow}, {Op: OpReturn, K: Trace | 38}}), uint32(1), uint32(Native), uint64(0), uint64(1))
	f.Add(encode([]Instruction{{Op: OpLoadWord}, {Op: OpJump, K: ^uint32(0)}}), uint32(0), uint32(0), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, raw []byte, nr, arch uint32, a, b uint64) {
		p, err := Decode(raw)
		if err != nil {
			return
		}
		got, steps, err := p.Run(&Call{NR: nr, Arch: arch, Args: [6]uint64{a, b, a ^ b, a, b}})
		if steps > len(p.Code) {
			t.Errorf("%d steps of %d instructions", steps, len(p.Code))
		}
		if err != nil {
			return
		}
		for _, in := range p.Code {
			if in.Op == OpReturn && in.K == got {
				return
			}
		}
		t.Errorf("no instruction returns %#x", got)
	})
}
