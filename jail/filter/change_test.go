package filter

import (
	"runtime"
	"slices"
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

// FuzzChanges compares program and policy for any change, with the denial of one call by its place in the table, and any call.
func FuzzChanges(f *testing.F) {
	var names []string
	for c := range mustDefault(f).Calls() {
		names = append(names, "syscall."+c.Name)
	}
	f.Add(uint8(0), uint16(0), uint32(41), mustDefault(f).AuditArch(), uint64(2), uint64(1), uint64(262), uint64(0))
	f.Add(uint8(1), uint16(0), uint32(101), mustDefault(f).AuditArch(), uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(2), uint16(0), uint32(425), mustDefault(f).AuditArch(), uint64(8), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(4), uint16(0), uint32(41), mustDefault(f).AuditArch(), uint64(2), uint64(0x80003), uint64(1), uint64(0))
	f.Add(uint8(8), uint16(0), uint32(56), mustDefault(f).AuditArch(), uint64(0x10000011), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(16), uint16(0), uint32(56), mustDefault(f).AuditArch(), uint64(0x3d0f00), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(32), uint16(0), uint32(41), mustDefault(f).AuditArch(), uint64(1<<32|1), uint64(1), uint64(0), uint64(0))
	f.Add(uint8(63), uint16(42), uint32(42), mustDefault(f).AuditArch(), uint64(0), uint64(0), uint64(0), uint64(0))
	var programs programCache
	f.Fuzz(func(t *testing.T, bits uint8, denied uint16, nr, arch uint32, a0, a1, a2, a3 uint64) {
		c := change(bits)
		if denied != 0 {
			c.Deny = append(c.Deny, names[int(denied)%len(names)])
		}
		p, err := policy.For(runtime.GOARCH, c)
		if err != nil {
			return
		}
		prog, err := programs.get(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][6]uint64{{a0, a1, a2, a3, a0, a1}, {a0 ^ 1<<32, a1 ^ 1<<63, a2, a3}} {
			if err := prog.compare(p, cbpf.Call{NR: nr, Arch: arch, Args: args}); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}

// programCache keeps what the fuzzer has compiled lately: compiling takes a thousand times longer than comparing.
type programCache struct {
	mu     sync.Mutex
	recent []*Program
	hashes []string
}

func (c *programCache) get(p policy.Policy) (*Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.hashes, p.Hash()); i >= 0 {
		return c.recent[i], nil
	}
	prog, err := Compile(p)
	if err != nil {
		return nil, err
	}
	if len(c.hashes) == 256 {
		c.recent, c.hashes = c.recent[1:], c.hashes[1:]
	}
	c.recent, c.hashes = append(c.recent, prog), append(c.hashes, p.Hash())
	return prog, nil
}
