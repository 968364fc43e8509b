package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// usual are the limits of every program, whatever the agent itself was given. The job's own come after them and win. None is
// raised over the hard limit that was inherited, which only the node's root could do.
var usual = []struct {
	resource  int
	soft, max uint64
}{
	{unix.RLIMIT_NOFILE, 1024, unix.RLIM_INFINITY}, // the Go runtime has raised the soft one in this process
	{unix.RLIMIT_STACK, 8 << 20, unix.RLIM_INFINITY},
	{unix.RLIMIT_CORE, 1, 1},                     // no core file, as with 0; but with 0 the node's root would run core_pattern's program, 1 stops that too (the filter keeps it at 1)
	{unix.RLIMIT_NICE, 0, 0},                     // nobody gets in front of other jobs
	{unix.RLIMIT_RTPRIO, 0, 0},                   // nor keeps a CPU to himself
	{unix.RLIMIT_MEMLOCK, 8 << 20, 8 << 20},      // the kernel's default: libraries that hold secrets lock a few pages
	{unix.RLIMIT_MSGQUEUE, 800 << 10, 800 << 10}, // the kernel's default
	{unix.RLIMIT_SIGPENDING, 4096, 4096},
}

// setRlimits sets the limits of every program, then the job's, soft and hard alike.
func setRlimits(s *stage) error {
	for _, u := range usual {
		var limit unix.Rlimit
		if err := unix.Getrlimit(u.resource, &limit); err != nil {
			return call(fmt.Sprintf("getrlimit(resource %d)", u.resource), err)
		}
		limit.Max = min(limit.Max, u.max)
		limit.Cur = min(limit.Max, u.soft)
		if err := unix.Prlimit(0, u.resource, &limit, nil); err != nil {
			return call(fmt.Sprintf("prlimit(resource %d, %d)", u.resource, limit.Cur), err)
		}
	}
	for _, r := range s.Rlimits {
		if err := unix.Prlimit(0, r.Resource, &unix.Rlimit{Cur: r.Value, Max: r.Value}, nil); err != nil {
			return call(fmt.Sprintf("prlimit(resource %d, %d)", r.Resource, r.Value), err)
		}
	}
	return nil
}
