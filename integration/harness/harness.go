// Package harness starts real agents for tests: the built binaries, a state directory and a socket of their own, and a
// network namespace of their own so that nothing of the machine's network is touched. It never looks inside the agent:
// everything goes through the socket, the command line and the kernel.
//
// Needs root. One Agent belongs to one test; Stop (called by the test's cleanup) ends it and removes what it made.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// Options of one agent. The zero value is an agent with its own state directory, bucket and network namespace.
type Options struct {
	State  string            // default: a fresh temporary directory
	Bucket string            // default: below State
	Env    map[string]string // on top of PATH and HOME
	Args   []string          // further flags of `tolbooth agent`
	Wrap   []string          // a command that executes what is appended to it, in the place of the agent
	Netns  netns.NsHandle    // 0: a fresh one with lo up
}

// Agent is one running agent.
type Agent struct {
	Socket string
	State  string
	Bucket string // as in Options
	Client *client.Client
	PID    int

	t    testing.TB
	cmd  *exec.Cmd
	log  *syncBuffer
	done chan struct{}
	once sync.Once
}

// Start builds the binaries if need be, starts an agent and waits until it is healthy.
func Start(t testing.TB, o Options) *Agent {
	t.Helper()
	a := Launch(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), 30*Slow)
	defer cancel()
	for {
		h, err := a.Client.Health(ctx)
		if err == nil && (h.Status == "ok" || h.Status == "degraded") {
			return a
		}
		select {
		case <-a.done:
			t.Fatalf("agent ended while it started:\n%s", a.Log())
		case <-ctx.Done():
			t.Fatalf("agent not healthy after 30s: %v %+v\n%s", err, h, a.Log())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Launch starts an agent and does not wait for its health.
func Launch(t testing.TB, o Options) *Agent {
	t.Helper()
	hosttest.Root(t)
	bin := Binaries(t)
	if o.State == "" {
		o.State = t.TempDir()
	}
	// Socket paths are limited to 107 bytes; a test's temporary directory can be longer.
	sockets, err := os.MkdirTemp("", "tb-sock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	if o.Netns == 0 {
		o.Netns = NewNetns(t)
	}
	a := &Agent{
		t: t, Socket: filepath.Join(sockets, "s"), State: o.State, Bucket: o.Bucket,
		log: &syncBuffer{}, done: make(chan struct{}),
	}
	argv := slices.Concat(o.Wrap, []string{filepath.Join(bin, "tolbooth"), "agent", "--socket", a.Socket, "--state", o.State}, o.Args)
	a.cmd = exec.Command(argv[0], argv[1:]...)
	a.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	if o.Bucket != "" {
		a.cmd.Env = append(a.cmd.Env, "SPOTFLOW_STORAGE_BUCKET="+o.Bucket)
	}
	for k, v := range o.Env {
		a.cmd.Env = append(a.cmd.Env, k+"="+v)
	}
	a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
	a.cmd.WaitDelay = time.Second
	if err := startIn(o.Netns, a.cmd); err != nil {
		t.Fatal(err)
	}
	a.PID = a.cmd.Process.Pid
	go func() { a.cmd.Wait(); close(a.done) }()
	t.Cleanup(a.Stop)
	a.Client = client.New("unix://"+a.Socket, "")
	return a
}

// Stop ends the agent as an operator would (TERM) and fails the test when it does not end.
func (a *Agent) Stop() {
	a.once.Do(func() {
		a.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-a.done:
		case <-time.After(20 * Slow):
			a.cmd.Process.Kill()
			<-a.done
			a.t.Errorf("agent did not end after SIGTERM:\n%s", a.Log())
		}
		if a.t.Failed() {
			a.t.Logf("end of the agent's log:\n%s", a.logEnd())
		}
	})
}

// Kill ends the agent at once, as a crash would.
func (a *Agent) Kill() {
	a.once.Do(func() {
		a.cmd.Process.Kill()
		<-a.done
	})
}

// Log is what the agent printed so far.
func (a *Agent) Log() string { return a.log.String() }

// logEnd is what a reader of a failure needs of it: a test of a thousand jobs has thousands of lines.
func (a *Agent) logEnd() string {
	lines := strings.SplitAfter(a.Log(), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "")
}

// Run posts a job and returns its result; an error of the API fails the test.
func (a *Agent) Run(req api.JobRequest) *api.Result {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 660*Slow)
	defer cancel()
	job, err := a.Client.Run(ctx, req)
	if err != nil {
		a.t.Fatalf("run %v: %v\n%s", req.Command, err, a.logEnd())
	}
	if job.Result == nil {
		a.t.Fatalf("run %v: job %s has no result in state %s", req.Command, job.ID, job.State)
	}
	return job.Result
}

// Sh runs a shell line in a job with the default policy.
func (a *Agent) Sh(line string) *api.Result {
	a.t.Helper()
	return a.Run(api.JobRequest{Command: []string{"bash", "-c", line}})
}

// Python runs Python source in a job with the default policy.
func (a *Agent) Python(code string) *api.Result {
	a.t.Helper()
	return a.Run(api.JobRequest{Language: "python", Code: code})
}

// CLI runs the command line against the agent and returns stdout, stderr and the exit code.
func (a *Agent) CLI(stdin string, args ...string) (string, string, int) {
	a.t.Helper()
	cmd := exec.Command(filepath.Join(Binaries(a.t), "tolbooth"), args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "SANDBOX_MANAGER_URL=unix://" + a.Socket}
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		a.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Netns opens the network namespace that the agent runs in: its node.
func (a *Agent) Netns() netns.NsHandle {
	a.t.Helper()
	h, err := netns.GetFromPid(a.PID)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { h.Close() })
	return h
}

// NewNetns makes a network namespace with lo up.
func NewNetns(t testing.TB) netns.NsHandle {
	t.Helper()
	var ns netns.NsHandle
	err := onOwnThread(func() (err error) {
		if ns, err = netns.New(); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// InNetns runs fn on a thread that is in ns and is thrown away after.
func InNetns(ns netns.NsHandle, fn func() error) error {
	return onOwnThread(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter the network namespace: %w", err)
		}
		return fn()
	})
}

func startIn(ns netns.NsHandle, cmd *exec.Cmd) error { return InNetns(ns, cmd.Start) }
