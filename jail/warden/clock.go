package warden

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
)

// cpuClock ends a run that used its CPU time. The kernel has no notification for a group's CPU time, so the clock looks at
// the earliest moment at which the limit can be reached, with every CPU busy for the job, and again, each time closer.
type cpuClock struct {
	group cgroup.Group
	own   *ownCPU
	limit time.Duration // 0: none
	base  time.Duration // used before the program started, by init and launch
	timer *time.Timer
}

// closest bounds how often the clock looks, and how far a limit is overrun on one CPU.
const closest = 10 * time.Millisecond

func newCPUClock(group cgroup.Group, own *ownCPU, limit time.Duration) *cpuClock {
	return &cpuClock{group: group, own: own, limit: limit}
}

// C is ready when over is to be called.
func (c *cpuClock) C() <-chan time.Time {
	if c.timer == nil {
		return nil
	}
	return c.timer.C
}

func (c *cpuClock) start() error {
	c.own.start()
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
	used := usage.CPU - c.base + c.own.used()
	if used >= c.limit {
		return true, nil
	}
	c.timer.Reset(c.earliest(used))
	return false, nil
}

func (c *cpuClock) earliest(used time.Duration) time.Duration {
	return max((c.limit-used)/time.Duration(runtime.NumCPU()), closest)
}

// ownCPU is the CPU time of this process since the program started. What the warden does from then on, it does for the
// program's calls and output, and it counts as the program's.
type ownCPU struct{ base time.Duration } // 0: not started

func (o *ownCPU) start() { o.base = processCPU() }

func (o *ownCPU) used() time.Duration {
	if o.base == 0 {
		return 0
	}
	return processCPU() - o.base
}

func processCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0 // cannot happen: the clock is there in every kernel
	}
	return time.Duration(t.Nano())
}
