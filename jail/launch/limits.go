package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// openFiles is the soft limit where the job names none. The Go runtime has raised it to the hard one in this process.
const openFiles = 1024

// setRlimits sets the job's limits, soft and hard alike. A core dump is never written: it would land in the workspace.
func setRlimits(s *stage) error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return call("getrlimit", err)
	}
	files.Cur = min(files.Max, openFiles)
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &files, nil); err != nil {
		return call("prlimit", err)
	}
	for _, r := range s.Rlimits {
		if err := unix.Prlimit(0, r.Resource, &unix.Rlimit{Cur: r.Value, Max: r.Value}, nil); err != nil {
			return call(fmt.Sprintf("prlimit(resource %d, %d)", r.Resource, r.Value), err)
		}
	}
	return call("prlimit(RLIMIT_CORE)", unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
}
