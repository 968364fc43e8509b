package filter

import (
	"slices"
	"sync"

	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// Cache keeps the programs of the policies it has seen. The zero value is empty and ready.
type Cache struct {
	mu       sync.Mutex        // held while compiling too: a second caller waits instead of compiling the same
	programs map[string][]byte // by policy hash; guarded by mu
}

// Get is the program for a policy as an array of struct sock_filter. Failures are not kept.
func (c *Cache) Get(p policy.Policy) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if raw, ok := c.programs[p.Hash()]; ok {
		return slices.Clone(raw), nil
	}
	prog, err := Compile(p)
	if err != nil {
		return nil, err
	}
	if c.programs == nil {
		c.programs = map[string][]byte{}
	}
	c.programs[p.Hash()] = prog.Bytes()
	return prog.Bytes(), nil
}
