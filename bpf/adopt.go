package bpf

import "fmt"

// adoptPolicies takes over the policies that the maps hold already. SetPolicy then finds them by their digest, under the
// id that running jobs are bound to.
func (e *Egress) adoptPolicies() error {
	var id uint32
	var head egressPolicy
	all := e.objects.TbPolicies.Iterate()
	for all.Next(&id, &head) {
		e.policies[id] = &heldPolicy{digest: head.Digest, inherited: true}
		e.byDigest[head.Digest] = id
		e.nextID = max(e.nextID, id+1)
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("list network policies: %w", err)
	}
	return e.adoptKeys()
}

// adoptKeys notes which entries belong to each inherited policy, and removes those of a policy whose writer died half-way.
func (e *Egress) adoptKeys() error {
	if err := deleteWhere(e.objects.TbRules, func(k egressRuleKey) bool {
		held := e.policies[k.Policy]
		if held != nil {
			held.keys = append(held.keys, k)
		}
		return held == nil
	}); err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	if err := deleteWhere(e.objects.TbPorts, func(k egressPortsKey) bool {
		held := e.policies[k.Policy]
		if held != nil {
			held.lists = max(held.lists, k.List+1)
		}
		return held == nil
	}); err != nil {
		return fmt.Errorf("list port lists: %w", err)
	}
	return nil
}

// adoptPins keeps ids of earlier sets from being given out again.
func (e *Egress) adoptPins() error {
	var key egressPinKey
	var pin egressPin
	all := e.objects.TbPins.Iterate()
	for all.Next(&key, &pin) {
		e.nextPins = max(e.nextPins, key.Set+1)
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	return nil
}

// Sweep removes what an earlier agent left in the maps and nobody claimed: control groups and veths that this process has
// not bound, pins of other sets than its own, and policies that it does not hold. Call it at start, once the jobs that still run are bound again.
func (e *Egress) Sweep() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := deleteWhere(e.objects.TbCgroups, func(id uint64) bool { return !e.cgroups[id] }); err != nil {
		return fmt.Errorf("sweep control groups: %w", err)
	}
	if err := deleteWhere(e.objects.TbVeths, func(index uint32) bool { return !e.veths[index] }); err != nil {
		return fmt.Errorf("sweep veths: %w", err)
	}
	if err := deleteWhere(e.objects.TbPins, func(k egressPinKey) bool { return !e.pins[k.Set] }); err != nil {
		return fmt.Errorf("sweep pins: %w", err)
	}
	for id, held := range e.policies {
		held.inherited = false
		if held.holders > 0 {
			continue
		}
		if err := e.dropPolicy(id); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	return nil
}
