package socket

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// countCPUs prints, one a line, what a program is told about the number of CPUs.
const countCPUs = `
import glob, os, subprocess, multiprocessing
say = lambda what, n: print(what, n)
say("affinity", len(os.sched_getaffinity(0)))
say("cpu_count", os.cpu_count())
say("multiprocessing", multiprocessing.cpu_count())
say("configured", os.sysconf("SC_NPROCESSORS_CONF"))
say("nproc", subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip())
say("nproc without OMP", subprocess.run(["env", "-u", "OMP_NUM_THREADS", "nproc"], capture_output=True, text=True, check=True).stdout.strip())
for path in sorted(glob.glob("/sys/devices/system/cpu/*")):
    assert open(path).read() == open("/sys/devices/system/cpu/online").read(), path
    first, _, last = open(path).read().partition("-")
    say(path, int(last or first) - int(first) + 1)
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "GOMAXPROCS", "RAYON_NUM_THREADS"):
    say(name, os.environ[name])
for path in ("/sys/x", "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/x"):
    try:
        open(path, "w")
        print("could write", path)
    except OSError:
        pass
`

// TestCPUCount: whatever a program asks, it is told the number of CPUs that its limit amounts to.
func TestCPUCount(t *testing.T) {
	a := harness.Start(t, harness.Options{Env: map[string]string{"TOLBOOTH_MIN_GRADE": "minimal"}})
	for _, c := range []struct {
		cpus float64
		want int
	}{{0, 1}, {0.1, 1}, {1, 1}, {1.5, min(2, runtime.NumCPU())}, {float64(runtime.NumCPU()), runtime.NumCPU()}} {
		for _, mode := range []string{"syd", "minimal"} {
			t.Run(mode+strconv.FormatFloat(c.cpus, 'g', -1, 64), func(t *testing.T) {
				if c.cpus > float64(runtime.NumCPU()) {
					c.cpus = float64(runtime.NumCPU())
				}
				req := code(countCPUs, api.Limits{CPUs: c.cpus})
				req.Jail = mode
				res := a.Run(req)
				if res.Outcome != api.OutcomeOK {
					t.Fatalf("%s %s\n%s%s", res.Outcome, res.Detail, res.Stdout, res.Stderr)
				}
				lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
				if len(lines) != 15 {
					t.Errorf("%d lines, want 15:\n%s", len(lines), res.Stdout)
				}
				for _, line := range lines {
					if !strings.HasSuffix(line, " "+strconv.Itoa(c.want)) {
						t.Errorf("%v CPUs: %s, want %d", c.cpus, line, c.want)
					}
				}
			})
		}
	}
}

// TestCPUEnvironment: the defaults are the request's to change.
func TestCPUEnvironment(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	res := a.Run(api.JobRequest{Command: []string{"sh", "-c", "echo $OMP_NUM_THREADS $UV_THREADPOOL_SIZE $GOMAXPROCS"}, Env: map[string]string{"OMP_NUM_THREADS": "7", "GOMAXPROCS": ""}})
	if res.Stdout != "7 4\n" {
		t.Errorf("%q %q", res.Stdout, res.Stderr)
	}
}

// TestNodeCPUCount: node's and Go's own count. os.cpus() is left out: it reads /proc/stat, which lists the node's.
func TestNodeCPUCount(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	res := a.Run(api.JobRequest{Language: "javascript", Code: "console.log(require('os').availableParallelism())"})
	if res.Stdout != "1\n" {
		t.Errorf("node counts %q %q", res.Stdout, res.Stderr)
	}
	program := base64.StdEncoding.EncodeToString(goProgram(t, countInGo))
	res = a.Run(api.JobRequest{
		Command: []string{"env", "-u", "GOMAXPROCS", "./count"},
		Files:   []api.File{{Path: "count", Content: program, Encoding: "base64", Mode: "0755"}},
	})
	if res.Stderr != "1 1\n" {
		t.Errorf("Go counts %q %q", res.Stdout, res.Stderr)
	}
}

// countInGo is a program that prints what Go counts.
const countInGo = "package main\nimport \"runtime\"\nfunc main() { println(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }\n"

// goProgram builds a program, without a C library.
func goProgram(t *testing.T, text string) []byte {
	t.Helper()
	_, missing := exec.LookPath("go")
	hosttest.Need(t, "go", missing == nil, "a Go program is built and run")
	dir := t.TempDir()
	source := filepath.Join(dir, "count.go")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "count")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	program, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return program
}
