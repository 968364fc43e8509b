package filter

import "fmt"

// call is struct seccomp_data (linux/seccomp.h) without the instruction pointer, which no policy looks at.
type call struct {
	nr   uint32
	arch uint32
	args [6]uint64
}

// word is the 32-bit word at an offset of struct seccomp_data, as a little-endian machine has it.
func (c *call) word(offset uint32) (uint32, error) {
	switch {
	case offset == 0:
		return c.nr, nil
	case offset == 4:
		return c.arch, nil
	case offset >= 16 && offset < 64 && offset%4 == 0:
		arg := c.args[(offset-16)/8]
		if offset%8 == 0 {
			return uint32(arg), nil
		}
		return uint32(arg >> 32), nil
	}
	return 0, fmt.Errorf("load from offset %d", offset)
}

// Classic BPF as libseccomp writes it (linux/bpf_common.h). Other instructions end the run with an error.
const (
	opLoadWord = 0x20 // A = data[k]
	opAnd      = 0x54 // A &= k
	opJump     = 0x05 // pc += k
	opEqual    = 0x15 // A == k
	opGreater  = 0x25 // A > k
	opAtLeast  = 0x35 // A >= k
	opAnyBit   = 0x45 // A & k != 0
	opReturn   = 0x06 // return k
)

// run interprets the program for one call. It ends, since jumps go forward only; steps is how many instructions it took.
func (p *Program) run(c *call) (ret uint32, steps int, err error) {
	var a uint32
	for pc := uint64(0); pc < uint64(len(p.code)); pc++ {
		steps++
		i := p.code[pc]
		var taken bool
		switch i.op {
		case opLoadWord:
			if a, err = c.word(i.k); err != nil {
				return 0, steps, fmt.Errorf("instruction %d: %w", pc, err)
			}
			continue
		case opAnd:
			a &= i.k
			continue
		case opJump:
			pc += uint64(i.k)
			continue
		case opReturn:
			return i.k, steps, nil
		case opEqual:
			taken = a == i.k
		case opGreater:
			taken = a > i.k
		case opAtLeast:
			taken = a >= i.k
		case opAnyBit:
			taken = a&i.k != 0
		default:
			return 0, steps, fmt.Errorf("instruction %d: unknown operation %#x", pc, i.op)
		}
		if taken {
			pc += uint64(i.jt)
		} else {
			pc += uint64(i.jf)
		}
	}
	return 0, steps, fmt.Errorf("run past the last instruction")
}
