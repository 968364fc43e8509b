package resolver

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// Pins is the kernel's list of addresses that one job may reach because it looked them up.
type Pins interface {
	Pin(addr netip.Addr, ports []bpf.Ports) error // replaces the ports of an address that is pinned already
	Unpin(addr netip.Addr) error
	Busy(addr netip.Addr) (bool, error) // whether a flow of the job uses the address
}

const (
	// MinPin is the least time that an address stays pinned: programs connect some time after they looked up, and many keep
	// what they found for longer than its TTL.
	MinPin = 30 * time.Second
	// maxTTL bounds what an answer may say, so that no pin outlives reason. In seconds.
	maxTTL = 24 * 60 * 60
	// maxLapsed bounds how many addresses are remembered after their pins have lapsed.
	maxLapsed = 256
)

// pinTable is what is pinned for one job, and why. The Jail's lock guards it.
type pinTable struct {
	kernel Pins
	most   int // addresses
	held   map[netip.Addr]map[string]grant
	lapsed []Lapse // oldest first
}

// grant is what one name gives an address.
type grant struct {
	ports []bpf.Ports
	until time.Time
}

// Lapse is an address that was pinned.
type Lapse struct {
	Addr netip.Addr
	Name string
	At   time.Time
}

// add pins the addresses of a name, all or an error.
func (t *pinTable) add(name string, addrs []netip.Addr, g grant) error {
	for _, a := range addrs {
		grants := maps.Clone(t.held[a])
		if grants == nil {
			grants = map[string]grant{}
		}
		fresh := g
		if old := grants[name]; old.until.After(g.until) {
			fresh.until = old.until
		}
		grants[name] = fresh
		if err := t.set(a, grants); err != nil {
			return err
		}
	}
	return nil
}

// fits reports whether the budget has room for addresses that are not pinned yet.
func (t *pinTable) fits(addrs []netip.Addr) bool {
	fresh := map[netip.Addr]bool{}
	for _, a := range addrs {
		if t.held[a] == nil {
			fresh[a] = true
		}
	}
	return len(t.held)+len(fresh) <= t.most
}

// set gives the kernel what the names of an address add up to, and remembers it once the kernel has it.
func (t *pinTable) set(a netip.Addr, grants map[string]grant) error {
	if len(grants) == 0 {
		if err := t.kernel.Unpin(a); err != nil {
			return fmt.Errorf("unpin %s: %w", a, err)
		}
		delete(t.held, a)
		return nil
	}
	var ports []bpf.Ports
	for _, g := range grants {
		ports = append(ports, g.ports...)
	}
	if err := t.kernel.Pin(a, bpf.MergePorts(ports, nil)); err != nil {
		return fmt.Errorf("pin %s: %w", a, err)
	}
	t.held[a] = grants
	return nil
}

// expire lets go of what has had its time and is not in use. What fails is tried again the next time.
func (t *pinTable) expire(now time.Time) error {
	var errs []error
	for a, grants := range t.held {
		left := map[string]grant{}
		for name, g := range grants {
			if !g.until.Before(now) {
				left[name] = g
			}
		}
		if len(left) == len(grants) {
			continue
		}
		busy, err := t.kernel.Busy(a)
		if err != nil {
			errs = append(errs, fmt.Errorf("look for flows to %s: %w", a, err))
			continue
		}
		if busy {
			continue
		}
		if err := t.set(a, left); err != nil {
			errs = append(errs, err)
			continue
		}
		for name := range grants {
			if _, ok := left[name]; !ok {
				t.remember(Lapse{a, name, now})
			}
		}
	}
	return errors.Join(errs...)
}

func (t *pinTable) remember(l Lapse) {
	t.lapsed = slices.DeleteFunc(t.lapsed, func(o Lapse) bool { return o.Addr == l.Addr && o.Name == l.Name })
	if len(t.lapsed) == maxLapsed {
		t.lapsed = t.lapsed[1:]
	}
	t.lapsed = append(t.lapsed, l)
}

// rejudge holds every pin against new rules, in use or not.
func (t *pinTable) rejudge(rules *table) error {
	var errs []error
	for a, grants := range t.held {
		left := map[string]grant{}
		for name, g := range grants {
			if g.ports = rules.judge(name).ports; len(g.ports) > 0 {
				left[name] = g
			}
		}
		errs = append(errs, t.set(a, left))
	}
	return errors.Join(errs...)
}

// allows reports whether a pin opens a port of an address.
func (t *pinTable) allows(a netip.Addr, port uint16, protocol bpf.Protocols) bool {
	for _, g := range t.held[a] {
		if slices.ContainsFunc(g.ports, func(p bpf.Ports) bool { return p.Low <= port && port <= p.High && p.Protocols&protocol != 0 }) {
			return true
		}
	}
	return false
}

// names are the names that an address is pinned for, in order.
func (t *pinTable) names(a netip.Addr) []string {
	var out []string
	for name := range t.held[a] {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// clear unpins everything.
func (t *pinTable) clear() error {
	var errs []error
	for a := range t.held {
		errs = append(errs, t.set(a, nil))
	}
	return errors.Join(errs...)
}
