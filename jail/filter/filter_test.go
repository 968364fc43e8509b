package filter

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

func mustDefault(t testing.TB) policy.Policy {
	t.Helper()
	p, err := policy.Default(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCompileIsStable(t *testing.T) {
	p := mustDefault(t)
	first, second := mustCompile(t, p), mustCompile(t, p)
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same policy compiled twice differs")
	}
	if len(first.Bytes()) != first.Len()*cbpf.InstructionSize || first.Len() > cbpf.MaxInstructions {
		t.Errorf("%d bytes, %d instructions", len(first.Bytes()), first.Len())
	}
}

func TestCompileRefusesOtherMachines(t *testing.T) {
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	p, err := policy.Default(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(p); err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("compile for %s: %v", other, err)
	}
	if _, err := Compile(policy.Policy{}); err == nil {
		t.Error("the empty policy compiles")
	}
}

func TestCache(t *testing.T) {
	var cache Cache
	p := mustDefault(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			raw, err := cache.Get(p)
			if err != nil || len(raw) == 0 {
				t.Errorf("get: %d bytes, %v", len(raw), err)
				return
			}
			clear(raw) // a caller's copy is its own
		})
	}
	wg.Wait()
	raw, err := cache.Get(p)
	if err != nil || !bytes.Equal(raw, mustCompile(t, p).Bytes()) {
		t.Errorf("the cached program differs: %v", err)
	}
	if n := cache.recent.Len(); n != 1 || len(cache.byHash) != 1 {
		t.Errorf("%d programs kept for one policy", n)
	}
	if _, err := cache.Get(policy.Policy{}); err == nil || cache.recent.Len() != 1 || len(cache.byHash) != 1 {
		t.Errorf("the empty policy: %v, %d programs kept", err, cache.recent.Len())
	}
}

// TestCacheIsBounded: requests choose policies, and the agent keeps the last ones only.
func TestCacheIsBounded(t *testing.T) {
	var cache Cache
	n := 0
	for c := range mustDefault(t).Calls() {
		p, err := policy.For(runtime.GOARCH, policy.Change{Deny: []string{"syscall." + c.Name}})
		if err != nil {
			continue // one that no program does without
		}
		cache.entry(p)
		if n++; n == 2*cacheSize {
			break
		}
	}
	if len(cache.byHash) != cacheSize || cache.recent.Len() != cacheSize {
		t.Errorf("%d programs kept, and %d of them found, of %d policies", cache.recent.Len(), len(cache.byHash), n)
	}
	first := cache.entry(mustDefault(t))
	for e := cache.recent.Front(); e != nil; e = e.Next() {
		if cache.byHash[e.Value.(*compiled).hash] != e {
			t.Errorf("%s is kept and not found", e.Value.(*compiled).hash)
		}
	}
	if cache.recent.Front() != first {
		t.Error("what was asked for last is not the first")
	}
}

func BenchmarkCompile(b *testing.B) {
	p := mustDefault(b)
	for b.Loop() {
		mustCompile(b, p)
	}
	b.ReportMetric(float64(mustCompile(b, p).Len()), "instructions")
}

// TestOtherArchitecture translates the other architecture's table too. libseccomp knows too few of its names to compile
// for it here, so the numbers go in as if they were this machine's, and the program's architecture check is changed
// afterwards.
func TestOtherArchitecture(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	p, err := policy.Default(other)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := translate(p)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if first := prog.Code[1]; first.Op != cbpf.OpEqual || first.K != mustDefault(t).AuditArch() {
		t.Fatalf("the program does not start with the architecture check: %+v", first)
	}
	prog.Code[1].K = p.AuditArch()
	if err := prog.check(p); err != nil {
		t.Error(err)
	}
	t.Logf("%s: %d instructions", other, prog.Len())
}

// TestAmbiguousPolicies: what libseccomp cannot express is an error, not a guess.
func TestAmbiguousPolicies(t *testing.T) {
	allow := policy.Case{Action: policy.Allow}
	under := func(mask uint64, arg int) policy.Case {
		return policy.Case{When: []policy.Match{{Arg: arg, Mask: mask, In: []uint64{0}}}, Action: policy.Trace, Errno: 1}
	}
	for name, cases := range map[string][]policy.Case{
		"two masks":  {under(1, 0), under(3, 0), allow},
		"no mask":    {under(0, 0), allow},
		"no verdict": {under(1, 0)},
		"no cases":   {},
	} {
		if paths, err := decisions(policy.Call{Name: "x", Cases: cases}); err == nil {
			t.Errorf("%s: %+v", name, paths)
		}
	}
}
