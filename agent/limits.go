package agent

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// Least values that a command can start with at all; less is a mistake in the unit.
const (
	minMemory = 4 << 20
	minCPUs   = 0.01
)

// resolveLimits fills a request's limits with the node's defaults and holds them against its caps. Each limit remembers
// who set it: the request, the operator of the node, or nobody (default).
func (c *Config) resolveLimits(l api.Limits) (limits, error) {
	var out limits
	var err error
	if l.Memory != 0 && l.Memory < minMemory {
		return out, refuse(api.ClassInvalid, "limits.memory", "%s is less than %s, which no program starts with", l.Memory, api.Quantity(minMemory))
	}
	if l.CPUs != 0 && l.CPUs < minCPUs {
		return out, refuse(api.ClassInvalid, "limits.cpus", "%v is less than %v", l.CPUs, minCPUs)
	}
	if out.Wall, err = resolve[time.Duration](c, "wall", l.Wall, c.Defaults.Wall, c.Max.Wall); err != nil {
		return out, err
	}
	if out.CPU, err = resolve[time.Duration](c, "cpu", l.CPU, c.Defaults.CPU, c.Max.CPU); err != nil {
		return out, err
	}
	if out.CPUs, err = resolve[float64](c, "cpus", l.CPUs, c.Defaults.CPUs, c.Max.CPUs); err != nil {
		return out, err
	}
	for _, q := range []struct {
		name            string
		asked, def, max api.Quantity
		into            *limit[int64]
	}{
		{"memory", l.Memory, c.Defaults.Memory, c.Max.Memory, &out.Memory},
		{"disk", l.Disk, c.Defaults.Disk, c.Max.Disk, &out.Disk},
		{"shm", l.Shm, c.Defaults.Shm, c.Max.Shm, &out.Shm},
		{"output", l.Output, c.Defaults.Output, c.Max.Output, &out.Output},
	} {
		if *q.into, err = resolve[int64](c, q.name, q.asked, q.def, q.max); err != nil {
			return out, err
		}
	}
	for _, n := range []struct {
		name            string
		asked, def, max int64
		into            *limit[int64]
	}{
		{"pids", l.Pids, c.Defaults.Pids, c.Max.Pids, &out.Pids},
		{"inodes", l.Inodes, c.Defaults.Inodes, c.Max.Inodes, &out.Inodes},
		{"open_files", l.OpenFiles, c.Defaults.OpenFiles, c.Max.OpenFiles, &out.OpenFiles},
	} {
		if *n.into, err = resolve[int64](c, n.name, n.asked, n.def, n.max); err != nil {
			return out, err
		}
	}
	return out, nil
}

type number interface{ ~int64 | ~float64 }

// resolve decides one limit. Zero asked means: the default. A default over a cap that the operator set is the cap.
func resolve[V, T number](c *Config, name string, asked, usual, most T) (limit[V], error) {
	switch {
	case cmp.Less(asked, 0):
		return limit[V]{}, refuse(api.ClassInvalid, "limits."+name, "%v is negative", asked)
	case asked > most:
		return limit[V]{}, refuse(api.ClassUnsupported, "limits."+name, "%v is over this node's cap of %v", asked, most).
			hint("ask for at most %v; the operator of the node sets the cap with limits.max.%s", most, name)
	case asked != 0:
		return limit[V]{Value: V(asked), SetBy: "request"}, nil
	case usual > most:
		return limit[V]{Value: V(most), SetBy: "node"}, nil
	case c.set["limits.defaults."+name]:
		return limit[V]{Value: V(usual), SetBy: "node"}, nil
	}
	return limit[V]{Value: V(usual), SetBy: "default"}, nil
}

// defaultLimits are the limits of a request that names none, as GET /v1/node shows them.
func (c *Config) defaultLimits() (api.Limits, error) {
	l, err := c.resolveLimits(api.Limits{})
	if err != nil {
		return api.Limits{}, fmt.Errorf("resolve the default limits: %w", err)
	}
	return l.wire(), nil
}

// wire are the limits as a request would write them.
func (l limits) wire() api.Limits {
	return api.Limits{
		Wall: api.Duration(l.Wall.Value), CPU: api.Duration(l.CPU.Value), CPUs: l.CPUs.Value,
		Memory: api.Quantity(l.Memory.Value), Pids: l.Pids.Value, Disk: api.Quantity(l.Disk.Value), Inodes: l.Inodes.Value,
		Shm: api.Quantity(l.Shm.Value), Output: api.Quantity(l.Output.Value), OpenFiles: l.OpenFiles.Value,
	}
}

// maxLimits are the node's caps.
func (c *Config) maxLimits() limits {
	l := c.Max
	return limits{
		Wall: limit[time.Duration]{time.Duration(l.Wall), "node"}, CPU: limit[time.Duration]{time.Duration(l.CPU), "node"},
		CPUs:   limit[float64]{l.CPUs, "node"},
		Memory: limit[int64]{int64(l.Memory), "node"}, Disk: limit[int64]{int64(l.Disk), "node"},
		Shm: limit[int64]{int64(l.Shm), "node"}, Output: limit[int64]{int64(l.Output), "node"},
		Pids: limit[int64]{l.Pids, "node"}, Inodes: limit[int64]{l.Inodes, "node"}, OpenFiles: limit[int64]{l.OpenFiles, "node"},
	}
}

// quantity writes bytes as a request would.
func quantity(n int64) string { return api.Quantity(n).String() }
