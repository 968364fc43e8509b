package harness

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Find lists the processes of this machine whose command line is cmdline (arguments separated by NUL).
func Find(cmdline string) []int {
	var out []int
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		b, err := os.ReadFile(p)
		if err == nil && strings.TrimSuffix(string(b), "\x00") == cmdline {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			out = append(out, pid)
		}
	}
	return out
}

// WardenOf is the warden of the jail in which cmdline runs: the tracer of that process.
func (a *Agent) WardenOf(cmdline string) int {
	a.t.Helper()
	for _, pid := range Find(cmdline) {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if v, ok := strings.CutPrefix(line, "TracerPid:"); ok {
				tracer, _ := strconv.Atoi(strings.TrimSpace(v))
				return tracer
			}
		}
	}
	a.t.Fatalf("no process %q", cmdline)
	return 0
}
