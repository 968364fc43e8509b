package agent

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// maxCPU is how many CPUs Linux can be built for.
const maxCPU = 8192

// usableCPUs are the CPUs that this process may use, by number.
func usableCPUs() ([]int, error) {
	set := unix.NewCPUSet(maxCPU)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var list []int
	for cpu := range maxCPU {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list, nil
}

// cpuCount is how many CPUs a job sees that may use this much of them, on a node with so many.
func cpuCount(limit float64, usable int) int {
	return max(1, min(usable, int(math.Ceil(limit))))
}

// cpuSpread chooses CPUs for jobs, the least loaded first. How much of them a job gets is its control group's quota; this only
// keeps jobs out of each other's way, and makes what a program counts what it gets.
type cpuSpread struct {
	usable []int

	mu   sync.Mutex
	load map[int]int // thousandths of a CPU that running jobs may use; guarded by mu
}

func newCPUSpread(usable []int) *cpuSpread {
	return &cpuSpread{usable: usable, load: map[int]int{}}
}

// take chooses CPUs for a job, lowest numbers first among equals. It is to call give when the job is over.
func (c *cpuSpread) take(limit float64) (cpus []int, give func()) {
	n := cpuCount(limit, len(c.usable))
	share := int(math.Ceil(1000 * limit / float64(n)))
	c.mu.Lock()
	defer c.mu.Unlock()
	cpus = slices.Clone(c.usable)
	slices.SortStableFunc(cpus, func(a, b int) int { return c.load[a] - c.load[b] })
	cpus = slices.Sorted(slices.Values(cpus[:n]))
	c.add(cpus, share)
	return cpus, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.add(cpus, -share)
	}
}

// first are the CPUs that a job would get if none ran.
func (c *cpuSpread) first(limit float64) []int { return c.usable[:cpuCount(limit, len(c.usable))] }

func (c *cpuSpread) add(cpus []int, share int) {
	for _, cpu := range cpus {
		c.load[cpu] += share
	}
}
