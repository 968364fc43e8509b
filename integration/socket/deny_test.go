package socket

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// TestAnyCallCanBeDenied takes each call away that a job has by default, and starts a program: either the request is refused and
// says why, or the program starts, and what comes of it without the call is its own affair.
func TestAnyCallCanBeDenied(t *testing.T) {
	p, err := policy.Default(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	for _, explainer := range []string{"notify", "ptrace"} {
		t.Run(explainer, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Args: []string{"--explainer", explainer}})
			var names []string
			for _, call := range p.Allowed() {
				name := "syscall." + call
				_, err := policy.For(runtime.GOARCH, policy.Change{Deny: []string{name}})
				if err == nil {
					names = append(names, name)
					continue
				}
				if _, err := startWithout(t, a, name); client.Class(err) != api.ClassInvalid || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", call, err)
				}
			}
			// A job for each would take a minute. Everything up to execve is the same for all, so many at once tell as much.
			for some := range slices.Chunk(names, 16) {
				if why, err := startWithout(t, a, some...); err != nil || why != "" {
					t.Errorf("%v: %s, %v", some, why, err)
				}
			}
			if len(names) < 250 {
				t.Errorf("only %d calls", len(names))
			}
		})
	}
}

// startWithout runs a program without some calls and says why it did not start.
func startWithout(t *testing.T, a *harness.Agent, names ...string) (why string, err error) {
	t.Helper()
	job, err := a.Client.Run(t.Context(), api.JobRequest{Command: []string{"true"}, Policy: api.Policy{Deny: names}})
	if err != nil {
		return "", err
	}
	switch r := job.Result; r.Outcome {
	case api.OutcomeStartFailed, api.OutcomeAgentLost, api.OutcomeWallLimit:
		why = string(r.Outcome) + " " + r.Detail
	}
	return why, nil
}

// executeOwn puts a program wherever the job may write, and prints what execve and the dynamic loader make of it; then the same of
// memory: a file of the job's own, and its standard input.
const executeOwn = `
import glob, os, shutil, subprocess, sys
loader = (glob.glob("/lib64/ld-linux*.so*") + glob.glob("/lib/ld-linux*.so*"))[0]
def tries(argv):
    try:
        return "ran" if subprocess.run(argv, stdin=0, capture_output=True).returncode == 0 else "failed"
    except OSError as e:
        return e.strerror
print("base", tries(["/usr/bin/true"]), tries([loader, "/usr/bin/true"]))
for d, below, files in os.walk("/"):
    if d in ("/proc", "/usr"): below.clear(); continue
    own = d + "/own"
    try:
        shutil.copy("/usr/bin/true", own)
    except OSError:
        continue
    print(d, tries([own]), tries([loader, own]))
print("stdin", tries(["/proc/self/fd/0"]))
try:
    os.memfd_create("x"); print("memory")
except OSError as e:
    print("memory", e.strerror)
subprocess.run(["/workspace/own"])
`

// TestNothingOfItsOwnIsExecuted: a job that denied itself programs outside the base has no place from which it can execute one, and
// is told so when it tries.
func TestNothingOfItsOwnIsExecuted(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	req := program(executeOwn)
	req.Stdin = api.Stdin{Text: "#!/bin/sh\n"}
	if res := a.Run(req); res.Outcome != api.OutcomeOK || strings.Count(res.Stdout, " ran ran\n") != 6 || !strings.Contains(res.Stdout, "\nmemory\n") {
		t.Errorf("without: %s %q %q", res.Outcome, res.Stdout, res.Stderr)
	}
	req.Policy.Deny = []string{"execve_outside_base"}
	res := a.Run(req)
	lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
	for _, line := range lines {
		where, what, _ := strings.Cut(line, " ")
		want := "Permission denied failed"
		switch where {
		case "base":
			want = "ran ran"
		case "stdin":
			want = "Permission denied"
		case "memory":
			want = "Operation not permitted"
		}
		if what != want {
			t.Errorf("%s: %s, want %s", where, what, want)
		}
	}
	if len(lines) < 8 || !strings.HasPrefix(lines[len(lines)-1], "memory") { // base, /workspace, /tmp, /var/tmp, /run, /dev/shm, stdin, memory
		t.Errorf("printed %q, %q", res.Stdout, res.Stderr)
	}
	for evidence, what := range map[string]string{"kernel": "memfd_create(", "output": "execute /workspace/own"} {
		if !slices.ContainsFunc(res.Denials, func(d api.Denial) bool {
			return d.Rule == "policy.execve_outside_base" && d.Evidence == evidence && strings.HasPrefix(d.What, what) && string(d.Fix) == "null"
		}) {
			t.Errorf("no denial says %q: %+v", what, res.Denials)
		}
	}
}
