package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// roleEnv makes the test binary a program to put into a group.
const roleEnv = "CGROUP_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		hosttest.Main(m)
	case "eat": // memory, until killed
		var keep [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			keep = append(keep, b)
			runtime.KeepAlive(keep)
		}
	case "spin":
		for { //nolint:staticcheck // that is the program
		}
	case "delegate":
		delegateRole()
	}
}

// testParent is a parent of its own for this test, removed at its end.
func testParent(t testing.TB) *Parent {
	t.Helper()
	hosttest.Root(t)
	p, err := OpenParent(testName())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func testGroup(t testing.TB, p *Parent, l Limits) Group {
	t.Helper()
	g, err := p.Create("job-1.a")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SetLimits(l); err != nil {
		t.Fatal(err)
	}
	return g
}

// role is the test binary as one of the programs in TestMain.
func role(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+name, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	return cmd
}

// startIn starts cmd as the warden starts init: born in the group. The test reaps it at its end.
func startIn(t testing.TB, g Group, cmd *exec.Cmd) {
	t.Helper()
	dir, err := g.DirFD()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	errs := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		leave, err := g.EnterV1()
		if err == nil {
			err = errors.Join(cmd.Start(), leave())
		}
		errs <- err
	}()
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
}

// eventually asks until ok, for what no notification exists for a test.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// await takes the next event, or fails.
func await(t testing.TB, events <-chan Event) Event {
	t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("events ended")
		}
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
	}
	panic("unreachable")
}

// watch watches g until the test is done.
func watch(t testing.TB, g Group) <-chan Event {
	t.Helper()
	stop := make(chan struct{})
	events, err := g.Watch(stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(stop)
		for range events {
		}
	})
	return events
}

func usage(t testing.TB, g Group) Usage {
	t.Helper()
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func sh(script string) *exec.Cmd { return exec.Command("/bin/sh", "-c", script) }

func itoa(n int) string { return strconv.Itoa(n) }

func pidText() string { return itoa(os.Getpid()) }

func testName() string { return "tb-test-" + pidText() }

func needHybrid(t testing.TB, p *Parent) {
	t.Helper()
	hosttest.Need(t, "cgroup v1", p.Support().Version == "hybrid", "no controller is on v1 here")
}
