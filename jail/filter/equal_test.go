package filter

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

func mustCompile(t testing.TB, p policy.Policy) *Program {
	t.Helper()
	prog, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// TestEqualToPolicy compares program and policy on every call number with patterns in the arguments that no rule was
// made for, beside the corners that Compile itself compares.
func TestEqualToPolicy(t *testing.T) {
	p := mustDefault(t)
	prog := mustCompile(t, p)
	patterns := []uint64{0, 1, 2, 10, 16, 0x5412, 0x541c, 0x20000, 1 << 32, 0xffffffff, 0xffffffff00000000, ^uint64(0), 0x10000000, 1<<32 | 0x5412}
	compared := 0
	for _, arch := range architectures() {
		for nr := range uint32(601) {
			for _, mark := range []uint32{0, 1 << 30, 1 << 31} {
				for i, a := range patterns {
					for j, b := range patterns {
						c := cbpf.Call{NR: nr | mark, Arch: arch, Args: [6]uint64{a, b, patterns[(i+j)%len(patterns)], a ^ b, a, b}}
						if err := prog.compare(p, c); err != nil {
							t.Fatal(err)
						}
						compared++
					}
				}
			}
		}
	}
	t.Logf("%d calls compared", compared)
}

// TestCheckFindsWrongPrograms changes one instruction at a time and expects Compile's own check to notice whatever
// changes an answer. A change that it passes is taken for one without effect when 20,000 random calls find none.
func TestCheckFindsWrongPrograms(t *testing.T) {
	p := mustDefault(t)
	good := mustCompile(t, p)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	found, passed := 0, 0
	// A quarter of the program a run, another one each time: the whole takes half a minute under the race detector.
	for i := random.IntN(4); i < good.Len(); i += 4 {
		for _, change := range []func(*cbpf.Instruction){
			func(in *cbpf.Instruction) { in.K++ },
			func(in *cbpf.Instruction) { in.JT, in.JF = in.JF, in.JT },
		} {
			bad := &Program{Program: &cbpf.Program{Code: slices.Clone(good.Code)}}
			change(&bad.Code[i])
			if bad.Code[i] == good.Code[i] {
				continue
			}
			if bad.check(p) != nil {
				found++
				continue
			}
			passed++
			if c, differ := difference(good, bad, p, random); differ {
				t.Errorf("instruction %d: %+v passes as %+v, and differs on %+v", i, good.Code[i], bad.Code[i], c)
			}
		}
	}
	t.Logf("%d wrong programs found, %d changes without effect", found, passed)
}

// difference looks for a call that two programs answer differently, near what the policy looks at.
func difference(a, b *Program, p policy.Policy, random *rand.Rand) (cbpf.Call, bool) {
	values := []uint64{0, 1, 3, 8}
	for c := range p.Calls() {
		for _, k := range c.Cases {
			for _, m := range k.When {
				values = append(values, m.In...)
			}
		}
	}
	for range 20000 {
		c := cbpf.Call{NR: random.Uint32N(600), Arch: p.AuditArch()}
		for i := range c.Args {
			c.Args[i] = values[random.IntN(len(values))] ^ 1<<random.IntN(64)&random.Uint64() ^ random.Uint64()&random.Uint64()&random.Uint64()<<random.IntN(64)
		}
		x, _, errA := a.Run(&c)
		y, _, errB := b.Run(&c)
		if x != y || (errA == nil) != (errB == nil) {
			return c, true
		}
	}
	return cbpf.Call{}, false
}

func FuzzEqualToPolicy(f *testing.F) {
	p := mustDefault(f)
	prog := mustCompile(f, p)
	f.Add(uint32(41), p.AuditArch(), uint64(2), uint64(1), uint64(262), uint64(0))
	f.Add(uint32(16), p.AuditArch(), uint64(0), uint64(0x100005412), uint64(0), uint64(0))
	f.Add(uint32(317), p.AuditArch(), uint64(1), uint64(8), uint64(0), uint64(0))
	f.Add(uint32(5), uint32(0x40000003), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint32(1<<30|2), p.AuditArch(), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, nr, arch uint32, a0, a1, a2, a3 uint64) {
		c := cbpf.Call{NR: nr, Arch: arch, Args: [6]uint64{a0, a1, a2, a3, a0, a1}}
		if err := prog.compare(p, c); err != nil {
			t.Error(err)
		}
	})
}

// FuzzDecode: whatever bytes come, decoding and running end, with a verdict or an error.
func FuzzDecode(f *testing.F) {
	f.Add(mustCompile(f, mustDefault(f)).Bytes())
	f.Add(binary.LittleEndian.AppendUint64(nil, cbpf.OpReturn))
	f.Fuzz(func(t *testing.T, raw []byte) {
		prog, err := decode(raw)
		if err != nil {
			return
		}
		if _, steps, _ := prog.Run(&cbpf.Call{}); steps > prog.Len() {
			t.Errorf("%d steps in %d instructions", steps, prog.Len())
		}
	})
}

// TestDepth holds the length of the program and of the way to the answer for an allowed call without argument rules.
func TestDepth(t *testing.T) {
	p := mustDefault(t)
	prog := mustCompile(t, p)
	longest, slowest := 0, ""
	for c := range p.Calls() {
		if len(c.Cases) > 1 {
			continue
		}
		if _, steps, err := prog.Run(&cbpf.Call{NR: c.NR, Arch: p.AuditArch()}); err != nil {
			t.Fatal(err)
		} else if steps > longest {
			longest, slowest = steps, c.Name
		}
	}
	// Four calls a leaf, a comparison a level, and the loads around them.
	limit := 10 + 4 + bits.Len(uint(prog.Len()))
	if longest > limit {
		t.Errorf("%s takes %d instructions, want at most %d", slowest, longest, limit)
	}
	t.Logf("%d instructions, the longest plain call (%s) takes %d", prog.Len(), slowest, longest)
}
