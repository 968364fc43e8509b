package agent

import (
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// workspaceDir is a job's home and working directory in its jail.
const workspaceDir = "/workspace"

// defaultEnv is a job's environment before its request adds to it: nothing of the agent's own. TZ is unset, so the clock
// is UTC. Runtimes start as many threads as the job has CPUs, and not one for each of the node's.
func defaultEnv(cpus int) map[string]string {
	env := map[string]string{
		"PATH":    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":    workspaceDir,
		"USER":    "sandbox",
		"LOGNAME": "sandbox",
		"SHELL":   "/bin/bash",
		"LANG":    "C.UTF-8",
		"TMPDIR":  "/tmp",
		"TERM":    "dumb",

		// A distribution's Python forbids pip to install even for one user, lest its own programs break (PEP 668). In a jail /usr
		// cannot be changed, and what pip installs belongs to the workspace.
		"PIP_BREAK_SYSTEM_PACKAGES": "1",

		// Its threads wait for disks and names more than they compute; fewer than libuv's own number can lock programs up.
		"UV_THREADPOOL_SIZE": strconv.Itoa(max(4, cpus)),
	}
	for _, name := range computeThreads {
		env[name] = strconv.Itoa(cpus)
	}
	return env
}

// computeThreads name the number of threads that a runtime computes with.
var computeThreads = []string{
	"GOMAXPROCS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS",
}

// What execve takes (MAX_ARG_STRLEN, and a quarter of the smallest stack that jails get).
const (
	maxArgument  = 128<<10 - 1
	maxArguments = 1 << 20
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,254}$`)

// environment merges the request's variables over the defaults, sorted.
func environment(cpus int, extra, asked map[string]string) ([]string, error) {
	env := defaultEnv(cpus)
	maps.Copy(env, extra)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if !envName.MatchString(name) {
			return nil, refuse(api.ClassInvalid, "env", "%s is not a variable name: letters, digits and _, no digit first", quoted(name))
		}
		if err := plainText("env."+name, asked[name]); err != nil {
			return nil, err
		}
		env[name] = asked[name]
	}
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list, nil
}

// checkArguments holds what execve is given against what the kernel takes.
func checkArguments(command, env []string) error {
	total := 0
	for i, lists := range [][]string{command, env} {
		field := []string{"command", "env"}[i]
		for _, s := range lists {
			if len(s) > maxArgument {
				return refuse(api.ClassInvalid, field, "one string has %d bytes; the kernel takes at most %d", len(s), maxArgument).
					hint("put large data into files or stdin")
			}
			total += len(s) + 9 // NUL and pointer
		}
		if total > maxArguments {
			return refuse(api.ClassInvalid, field, "command and environment together are larger than %d bytes", maxArguments).
				hint("put large data into files or stdin")
		}
	}
	return nil
}
