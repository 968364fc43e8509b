package cbpf

import "fmt"

// Call is struct seccomp_data (linux/seccomp.h) without the instruction pointer, which no policy looks at.
type Call struct {
	NR   uint32
	Arch uint32
	Args [6]uint64
}

// word is the 32-bit word at an offset of struct seccomp_data, as a little-endian machine has it.
func (c *Call) word(offset uint32) (uint32, error) {
	switch {
	case offset == 0:
		return c.NR, nil
	case offset == 4:
		return c.Arch, nil
	case offset >= 16 && offset < 64 && offset%4 == 0:
		arg := c.Args[(offset-16)/8]
		if offset%8 == 0 {
			return uint32(arg), nil
		}
		return uint32(arg >> 32), nil
	}
	return 0, fmt.Errorf("load from offset %d", offset)
}

// Classic BPF as libseccomp writes it (linux/bpf_common.h). Other instructions end the run with an error.
const (
	OpLoadWord = 0x20 // A = data[k]
	OpAnd      = 0x54 // A &= k
	OpJump     = 0x05 // pc += k
	OpEqual    = 0x15 // A == k
	OpGreater  = 0x25 // A > k
	OpAtLeast  = 0x35 // A >= k
	OpAnyBit   = 0x45 // A & k != 0
	OpReturn   = 0x06 // return k
)

// Run interprets the program for one call. It ends, since jumps go forward only; steps is how many instructions it took.
func (p *Program) Run(c *Call) (ret uint32, steps int, err error) {
	var a uint32
	for pc := uint64(0); pc < uint64(len(p.Code)); pc++ {
		steps++
		i := p.Code[pc]
		var taken bool
		switch i.Op {
		case OpLoadWord:
			if a, err = c.word(i.K); err != nil {
				return 0, steps, fmt.Errorf("instruction %d: %w", pc, err)
			}
			continue
		case OpAnd:
			a &= i.K
			continue
		case OpJump:
			pc += uint64(i.K)
			continue
		case OpReturn:
			return i.K, steps, nil
		case OpEqual:
			taken = a == i.K
		case OpGreater:
			taken = a > i.K
		case OpAtLeast:
			taken = a >= i.K
		case OpAnyBit:
			taken = a&i.K != 0
		default:
			return 0, steps, fmt.Errorf("instruction %d: unknown operation %#x", pc, i.Op)
		}
		if taken {
			pc += uint64(i.JT)
		} else {
			pc += uint64(i.JF)
		}
	}
	return 0, steps, fmt.Errorf("run past the last instruction")
}
