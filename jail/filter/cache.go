package filter

import (
	"container/list"
	"slices"
	"sync"

	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// cacheSize is how many programs a Cache keeps, of 6 KiB or so each. Requests choose policies, so they must not choose how
// much memory the agent has.
const cacheSize = 64

// Cache keeps the programs of the policies that were asked for last. The zero value is empty and ready.
type Cache struct {
	mu     sync.Mutex
	byHash map[string]*list.Element // of recent; guarded by mu
	recent list.List                // of *compiled, the last asked for first; guarded by mu
}

// compiled is one program in the making: who asks for it meanwhile waits, and nobody else does.
type compiled struct {
	hash    string
	program func() ([]byte, error)
}

// Get is the program for a policy as an array of struct sock_filter. Failures are not kept.
func (c *Cache) Get(p policy.Policy) ([]byte, error) {
	e := c.entry(p)
	raw, err := e.Value.(*compiled).program()
	if err != nil {
		c.drop(e)
		return nil, err
	}
	return slices.Clone(raw), nil
}

func (c *Cache) entry(p policy.Policy) *list.Element {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byHash[p.Hash()]; ok {
		c.recent.MoveToFront(e)
		return e
	}
	if c.byHash == nil {
		c.byHash = map[string]*list.Element{}
	}
	if c.recent.Len() >= cacheSize {
		c.remove(c.recent.Back())
	}
	e := c.recent.PushFront(&compiled{p.Hash(), sync.OnceValues(func() ([]byte, error) {
		prog, err := Compile(p)
		if err != nil {
			return nil, err
		}
		return prog.raw, nil
	})})
	c.byHash[p.Hash()] = e
	return e
}

// drop forgets a failure, unless it is forgotten already.
func (c *Cache) drop(e *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash[e.Value.(*compiled).hash] == e {
		c.remove(e)
	}
}

// remove is called with mu held.
func (c *Cache) remove(e *list.Element) {
	delete(c.byHash, e.Value.(*compiled).hash)
	c.recent.Remove(e)
}
