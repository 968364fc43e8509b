package harness

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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

// WardenOf is the warden of the jail in which cmdline runs: the agent's child among that process's ancestors.
func (a *Agent) WardenOf(cmdline string) int {
	a.t.Helper()
	for _, pid := range Find(cmdline) {
		for up := parent(pid); up > 1; pid, up = up, parent(up) {
			if up == a.PID {
				return pid
			}
		}
	}
	a.t.Fatalf("no process %q below the agent", cmdline)
	return 0
}

// parent is 0 when the process is gone.
func parent(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "PPid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(v))
			return n
		}
	}
	return 0
}

// CPU is the processor time that the agent's own process has used, without those it started.
func (a *Agent) CPU() time.Duration {
	a.t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(a.PID) + "/stat")
	if err != nil {
		a.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // the first is the state, field 3 of proc(5)
	user, _ := strconv.Atoi(fields[14-3])
	system, _ := strconv.Atoi(fields[15-3])
	return time.Duration(user+system) * 10 * time.Millisecond
}
