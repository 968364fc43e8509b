package launch

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// setAffinity keeps the program to the CPUs that were chosen for it, so that what it counts is what it gets. This spreads jobs and
// is no wall: a program may ask for other CPUs again, and its cgroup's quota stays what it is.
func setAffinity(s *stage) error {
	if len(s.CPUs) == 0 {
		return nil
	}
	set := unix.NewCPUSet(slices.Max(s.CPUs) + 1)
	for _, cpu := range s.CPUs {
		if cpu < 0 {
			return fmt.Errorf("CPU %d cannot be", cpu)
		}
		set.Set(cpu)
	}
	return call(fmt.Sprintf("sched_setaffinity(%v)", s.CPUs), unix.SchedSetaffinityDynamic(0, set))
}

// takeCore keeps the programs of other jails off the sibling of the core that this one runs on, where the kernel can
// (CONFIG_SCHED_CORE) and the machine has siblings. The result says whether it is so.
func takeCore(s *stage) error {
	err := unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE, 0, unix.PR_SCHED_CORE_SCOPE_THREAD_GROUP, 0)
	s.coreSched = err == nil
	return nil
}
