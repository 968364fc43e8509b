package warden

import (
	"runtime"
	"time"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
)

// cpuClock ends a run that used its CPU time. The kernel has no notification for a group's CPU time, so the clock looks at
// the earliest moment at which the limit can be reached, with every CPU busy for the job, and again, each time closer.
type cpuClock struct {
	group cgroup.Group
	limit time.Duration // 0: none
	base  time.Duration // used before the program started, by init and launch
	timer *time.Timer
}

// closest bounds how often the clock looks, and how far a limit is overrun on one CPU.
const closest = 10 * time.Millisecond

func newCPUClock(group cgroup.Group, limit time.Duration) *cpuClock {
	return &cpuClock{group: group, limit: limit}
}

// C is ready when over is to be called.
func (c *cpuClock) C() <-chan time.Time {
	if c.timer == nil {
		return nil
	}
	return c.timer.C
}

func (c *cpuClock) start() error {
	if c.limit <= 0 {
		return nil
	}
	usage, err := c.group.Usage()
	if err != nil {
		return err
	}
	c.base = usage.CPU
	c.timer = time.NewTimer(c.earliest(0))
	return nil
}

func (c *cpuClock) over() (bool, error) {
	usage, err := c.group.Usage()
	if err != nil {
		return false, err
	}
	used := usage.CPU - c.base
	if used >= c.limit {
		return true, nil
	}
	c.timer.Reset(c.earliest(used))
	return false, nil
}

func (c *cpuClock) earliest(used time.Duration) time.Duration {
	return max((c.limit-used)/time.Duration(runtime.NumCPU()), closest)
}
