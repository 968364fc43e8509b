package filter

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// changes are all sets of extras with all sets of the denials that a filter carries out, as bits.
func change(bits uint8) policy.Change {
	var c policy.Change
	for i, x := range policy.Extras() {
		if bits&(1<<i) != 0 {
			c.Extras = append(c.Extras, x.Name)
		}
	}
	for i, name := range []string{policy.DenyProcesses, policy.DenySockets} {
		if bits&(1<<(i+len(policy.Extras()))) != 0 {
			c.Deny = append(c.Deny, name)
		}
	}
	return c
}

const allChanges = 1 << 6

// TestEveryChangeCompiles: Compile itself compares each program with its policy.
func TestEveryChangeCompiles(t *testing.T) {
	possible := 0
	for bits := range uint8(allChanges) {
		p, err := policy.For(runtime.GOARCH, change(bits))
		if err != nil {
			continue // names that do not go together
		}
		possible++
		if prog := mustCompile(t, p); prog.Len() > cbpf.MaxInstructions/2 {
			t.Errorf("%+v: %d instructions", p.Change(), prog.Len())
		}
	}
	if possible != 48 { // all without io_uring together with sockets
		t.Errorf("%d of %d changes are possible", possible, allChanges)
	}
}

// TestBroker holds the one answer that is no errno.
func TestBroker(t *testing.T) {
	p, err := policy.For(runtime.GOARCH, policy.Change{Extras: []string{policy.RawSocket}})
	if err != nil {
		t.Fatal(err)
	}
	socket, _ := p.Lookup("socket")
	got, _, err := mustCompile(t, p).Run(&cbpf.Call{NR: socket.NR, Arch: p.AuditArch(), Args: [6]uint64{2, 3, 1}})
	if err != nil || got != cbpf.Trace|cbpf.Broker {
		t.Errorf("raw socket: answer %#x, %v", got, err)
	}
}

// fuzzedDenials are calls of each kind: with argument rules, of extras, and plain. Nothing else about a denied call differs.
var fuzzedDenials = []string{"socket", "clone", "setsockopt", "personality", "ptrace", "io_uring_setup", "mount", "getpid"}

// FuzzChanges compares program and policy for any change, with the denial of one call, and any call.
func FuzzChanges(f *testing.F) {
	arch := mustDefault(f).AuditArch()
	f.Add(uint8(0), uint8(0), uint32(41), arch, uint64(2), uint64(1), uint64(262), uint64(0))
	f.Add(uint8(1), uint8(0), uint32(101), arch, uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(2), uint8(0), uint32(425), arch, uint64(8), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(4), uint8(0), uint32(41), arch, uint64(2), uint64(0x80003), uint64(1), uint64(0))
	f.Add(uint8(4), uint8(0), uint32(54), arch, uint64(3), uint64(41), uint64(1<<32|200), uint64(0))
	f.Add(uint8(8), uint8(0), uint32(56), arch, uint64(0x10000011), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(16), uint8(0), uint32(56), arch, uint64(0x3d0f00), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(32), uint8(0), uint32(41), arch, uint64(1<<32|1), uint64(1), uint64(0), uint64(0))
	f.Add(uint8(61), uint8(5), uint32(101), arch, uint64(0), uint64(0), uint64(0), uint64(0))
	var tables tableCache
	f.Fuzz(func(t *testing.T, bits, denied uint8, nr, arch uint32, a0, a1, a2, a3 uint64) {
		c := change(bits)
		if d := int(denied) % (len(fuzzedDenials) + 1); d != 0 {
			c.Deny = append(c.Deny, "syscall."+fuzzedDenials[d-1])
		}
		have := tables.get(c)
		if have == nil {
			return // names that do not go together
		}
		for _, args := range [][6]uint64{{a0, a1, a2, a3, a0, a1}, {a0 ^ 1<<32, a1 ^ 1<<63, a2 ^ 1<<32, a3}} {
			if err := have.program.compare(have.policy, cbpf.Call{NR: nr, Arch: arch, Args: args}); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}

// tableCache keeps what the fuzzer has compiled: compiling takes ten thousand times longer than comparing.
type tableCache struct {
	mu     sync.Mutex
	tables map[string]*table
}

type table struct {
	policy  policy.Policy
	program *Program
}

// get is nil for a change that no policy has. A program that fails Compile's own check is a finding.
func (c *tableCache) get(change policy.Change) *table {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(change)
	if t, ok := c.tables[key]; ok {
		return t
	}
	if c.tables == nil {
		c.tables = map[string]*table{}
	}
	c.tables[key] = nil
	p, err := policy.For(runtime.GOARCH, change)
	if err != nil {
		return nil
	}
	prog, err := Compile(p)
	if err != nil {
		panic(err)
	}
	c.tables[key] = &table{p, prog}
	return c.tables[key]
}
