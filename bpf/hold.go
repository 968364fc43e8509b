package bpf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
)

// heldPolicy is a policy in the maps. holders counts the releases still owed; inherited marks one that an earlier agent
// put there and that Sweep may remove.
type heldPolicy struct {
	digest    [32]byte
	keys      []egressRuleKey
	lists     uint32
	holders   int
	inherited bool
}

// SetPolicy puts a policy into the maps and returns its id. Policies that mean the same share one id. release gives the
// id back, once; the last one removes it, so release only after unbinding.
func (e *Egress) SetPolicy(p Policy) (id uint32, release func() error, err error) {
	if err := p.check(e.maxRules); err != nil {
		return 0, nil, fmt.Errorf("network policy: %w", err)
	}
	c, err := compile(p)
	if err != nil {
		return 0, nil, fmt.Errorf("network policy: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	id, ok := e.byDigest[c.digest]
	if !ok {
		id = e.nextID
		e.nextID++
		held, err := e.writePolicy(id, c)
		if err != nil {
			return 0, nil, errors.Join(fmt.Errorf("write network policy: %w", err), e.erasePolicy(id, held))
		}
		e.byDigest[c.digest] = id
		e.policies[id] = held
	}
	e.policies[id].holders++
	var once sync.Once
	return id, func() (err error) {
		once.Do(func() { err = e.releasePolicy(id) })
		return err
	}, nil
}

func (e *Egress) releasePolicy(id uint32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := e.policies[id]
	held.holders--
	if held.holders > 0 || held.inherited {
		return nil
	}
	return e.dropPolicy(id)
}

// dropPolicy is called with mu held.
func (e *Egress) dropPolicy(id uint32) error {
	held := e.policies[id]
	delete(e.byDigest, held.digest)
	delete(e.policies, id)
	return e.erasePolicy(id, held)
}

// writePolicy writes the head last: until then the id means "no network". What it returns beside an error is what it had
// written.
func (e *Egress) writePolicy(id uint32, c *compiled) (*heldPolicy, error) {
	held := &heldPolicy{digest: c.digest}
	for i := range c.lists {
		if err := e.objects.TbPorts.Put(egressPortsKey{Policy: id, List: held.lists}, &c.lists[i]); err != nil {
			return held, fmt.Errorf("port list: %w", err)
		}
		held.lists++
	}
	for _, p := range c.prefixes {
		key := egressRuleKey{Prefixlen: uint32(32 + p.prefix.Bits()), Policy: id, Addr: addrOf(p.prefix.Addr())}
		if err := e.objects.TbRules.Put(key, p.list); err != nil {
			return held, fmt.Errorf("prefix %s: %w", p.prefix, err)
		}
		held.keys = append(held.keys, key)
	}
	head := egressPolicy{Mode: uint8(c.mode), Digest: c.digest}
	if len(c.prefixes) > 0 {
		head.HasRules = 1
	}
	return held, e.objects.TbPolicies.Put(id, head)
}

// erasePolicy removes what the maps hold of a policy, the head first.
func (e *Egress) erasePolicy(id uint32, held *heldPolicy) error {
	if err := ignoreMissing(e.objects.TbPolicies.Delete(id), "remove network policy"); err != nil {
		return err
	}
	for _, key := range held.keys {
		if err := ignoreMissing(e.objects.TbRules.Delete(key), "remove rule"); err != nil {
			return err
		}
	}
	for list := range held.lists {
		if err := ignoreMissing(e.objects.TbPorts.Delete(egressPortsKey{Policy: id, List: list}), "remove port list"); err != nil {
			return err
		}
	}
	return nil
}

// deleteWhere collects the keys before deleting them: a hash walked while it shrinks starts over.
func deleteWhere[K any](m *ebpf.Map, match func(K) bool) error {
	var doomed []K
	var key, next K
	err := m.NextKey(nil, &next)
	for ; err == nil; err = m.NextKey(key, &next) {
		key = next
		if match(key) {
			doomed = append(doomed, key)
		}
	}
	if !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	for _, key := range doomed {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

func ignoreMissing(err error, what string) error {
	if err == nil || errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
