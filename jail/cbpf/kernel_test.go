package cbpf

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// noCall is a number that no kernel has: allowed, it is answered ENOSYS and does nothing.
const noCall = 0x1fff

// TestRunIsTheKernels loads random programs into the kernel, which then answers the same calls as Run. The kernel takes valid
// programs only; each has a thread of its own, which ends with it.
func TestRunIsTheKernels(t *testing.T) {
	hosttest.Filters(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	answers := map[unix.Errno]int{}
	for range 200 {
		code := randomProgram(random)
		calls := make([]Call, 50)
		for i := range calls {
			calls[i] = Call{NR: noCall, Arch: Native}
			for j := range calls[i].Args {
				calls[i].Args[j] = randomWord(random)
			}
		}
		got := askKernel(t, code, calls)
		for i, c := range calls {
			answer, _, err := (&Program{Code: code}).Run(&c)
			want := unix.ENOSYS
			if answer&ActionMask == Errno {
				want = unix.Errno(answer & DataMask)
			}
			if err != nil || got[i] != want {
				t.Fatalf("%+v for %#x: the kernel says %v, Run %#x, %v", code, c, got[i], answer, err)
			}
			answers[want]++
		}
	}
	if len(answers) < 100 {
		t.Errorf("only %d different answers", len(answers))
	}
}

// randomProgram is valid: jumps stay inside, loads are of the words that Run knows, and the last instruction returns. Other calls
// than noCall it allows, since a thread of the runtime cannot do without them.
func randomProgram(random *rand.Rand) []Instruction {
	code := []Instruction{{Op: OpLoadWord}, {Op: OpEqual, K: noCall, JT: 1}, {Op: OpReturn, K: Allow}}
	words := []uint32{0, 4}
	for offset := uint32(16); offset < 64; offset += 4 {
		words = append(words, offset)
	}
	length := len(code) + 5 + random.IntN(60)
	for len(code) < length {
		left := length - len(code) // instructions after this one; the last returns
		in := Instruction{K: uint32(randomWord(random)), JT: uint8(random.IntN(min(left, 8))), JF: uint8(random.IntN(min(left, 8)))}
		switch random.IntN(9) {
		case 0, 1:
			in = Instruction{Op: OpLoadWord, K: words[random.IntN(len(words))]}
		case 2:
			in = Instruction{Op: OpAnd, K: in.K}
		case 3:
			in = Instruction{Op: OpJump, K: uint32(random.IntN(min(left, 4)))}
		case 4:
			in.Op = OpEqual
		case 5:
			in.Op = OpGreater
		case 6:
			in.Op = OpAtLeast
		case 7:
			in.Op = OpAnyBit
		case 8:
			in = randomAnswer(random)
		}
		code = append(code, in)
	}
	return append(code, randomAnswer(random))
}

func randomAnswer(random *rand.Rand) Instruction {
	if random.IntN(8) == 0 {
		return Instruction{Op: OpReturn, K: Allow}
	}
	return Instruction{Op: OpReturn, K: Errno | 100 + uint32(random.IntN(1000))}
}

// randomWord has few bits set, or few clear, so that tests of it go either way.
func randomWord(random *rand.Rand) uint64 {
	w := random.Uint64() & random.Uint64() & random.Uint64()
	switch random.IntN(4) {
	case 0:
		return ^w
	case 1:
		return uint64(random.IntN(4))
	}
	return w
}

// askKernel puts a program in force for a new thread and makes the calls there.
func askKernel(t *testing.T, code []Instruction, calls []Call) []unix.Errno {
	t.Helper()
	answers := make([]unix.Errno, len(calls))
	var err error
	hosttest.OnOwnThread(func() {
		if err = load(code); err != nil {
			return
		}
		for i, c := range calls {
			a := c.Args
			_, _, answers[i] = unix.RawSyscall6(noCall, uintptr(a[0]), uintptr(a[1]), uintptr(a[2]), uintptr(a[3]), uintptr(a[4]), uintptr(a[5]))
		}
	})
	if err != nil {
		t.Fatalf("load %+v: %v", code, err)
	}
	return answers
}

func load(code []Instruction) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	list := make([]unix.SockFilter, len(code))
	for i, in := range code {
		list[i] = unix.SockFilter{Code: in.Op, Jt: in.JT, Jf: in.JF, K: in.K}
	}
	program := unix.SockFprog{Len: uint16(len(list)), Filter: &list[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
