package real

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// preempted opens a file from 8 goroutines, as often as its argument says, and tries a refused call now and then, while signals
// fall on every thread as they do when the Go runtime preempts.
const preempted = `package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	times, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			go signal(syscall.Gettid())
			for i := range times {
				f, err := os.Open("/etc/hostname")
				if err != nil {
					panic(err)
				}
				f.Close()
				if i%(times/100) == 0 {
					if err := syscall.Sethostname([]byte("x")); err != syscall.EPERM {
						panic(err)
					}
				}
			}
		})
	}
	all.Wait()
	fmt.Println("done")
}

func signal(thread int) {
	for ; ; time.Sleep(50 * time.Microsecond) {
		syscall.Tgkill(os.Getpid(), thread, syscall.SIGURG)
	}
}
`

// TestPreemptedGoProgram is P10: signals by which the Go runtime preempts a thread fall into calls that wait for an explainer.
// With each engine every call is answered once and the program ends: none is started again for ever.
func TestPreemptedGoProgram(t *testing.T) {
	hosttest.Program(t, "go")
	program := api.File{Path: "program", Mode: "0755", Encoding: "base64", Content: base64.StdEncoding.EncodeToString(compileGo(t, preempted))}
	for _, c := range []struct{ explainer, times string }{
		{"notify", "100000"},
		{"ptrace", "10000"}, // each of the 8 threads stops at every signal
	} {
		t.Run(c.explainer, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Args: []string{"--explainer", c.explainer}})
			res := a.Run(api.JobRequest{
				Command: []string{"./program", c.times}, Files: []api.File{program},
				Limits: api.Limits{CPUs: 2, Wall: api.Duration(300 * harness.Slow), CPU: api.Duration(300 * harness.Slow)},
			})
			if res.Outcome != api.OutcomeOK || res.Stdout != "done\n" {
				t.Errorf("%s %s\n%s%s%s", res.Outcome, res.Detail, res.Stdout, res.Stderr, denials(res))
			}
			if len(res.Denials) != 1 || res.Denials[0].Count != 800 {
				t.Errorf("800 calls were refused: %+v", res.Denials)
			}
			t.Logf("%d ms, %d ms of CPU", res.Usage.WallMS, res.Usage.CPUMS)
		})
	}
}

// compileGo makes a program of one file.
func compileGo(t *testing.T, source string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "program", "main.go")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	return program
}
