package jail

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

const sleeper = `
import os, time
for _ in range(3):
    if os.fork() == 0: time.sleep(60)
os.write(1, b"ready\n"); time.sleep(60)`

// TestDeath kills a part of the chain while a job runs. Nothing may be left, and the result must say so.
func TestDeath(t *testing.T) { everyEngine(t, testDeath) }

func testDeath(t *testing.T, s *site) {
	for _, mode := range s.modes {
		for _, victim := range []string{"warden", "init"} {
			t.Run(string(mode)+"/"+victim, func(t *testing.T) {
				j := s.python(t, mode, sleeper)
				defer j.close()
				p := j.start()
				waitFor(t, func() bool { return strings.Contains(j.read().stdout, "ready") })
				pid := p.WardenPID()
				init := childOf(t, pid)
				if victim == "init" {
					pid = init
				}
				start := time.Now()
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				exit := j.wait(p)
				took := time.Since(start)
				if exit.Cause != CauseLost || exit.Step != victim || took > hosttest.Slow(2*time.Second) {
					t.Errorf("after %v exit %+v", took, exit)
				}
				s.launcher.Wait()
				left, err := j.place.Cgroup.Processes()
				if err != nil || len(left) > 0 || alive(p.WardenPID()) || alive(init) {
					t.Errorf("left %v, %v", left, err)
				}
			})
		}
	}
}

// TestPreparedDeath kills a part of a jail that waits.
func TestPreparedDeath(t *testing.T) { everyEngine(t, testPreparedDeath) }

func testPreparedDeath(t *testing.T, s *site) {
	for _, victim := range []string{"warden", "init"} {
		t.Run(victim, func(t *testing.T) {
			j := s.newJob(t, Syd, "true")
			defer j.close()
			p := j.build()
			pid := p.WardenPID()
			init := childOf(t, pid)
			if victim == "init" {
				pid = init
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return dead(t, init) && dead(t, p.WardenPID()) }) // which notices it while it waits
			_, err := p.Start(t.Context(), j.spec)
			wantStartError(t, err, victim, 0)
			if alive(init) {
				t.Error("init lives")
			}
		})
	}
}

// TestAgentDeath closes the agent's end while a job runs: the warden finishes it, and the spool has everything.
func TestAgentDeath(t *testing.T) { everyEngine(t, testAgentDeath) }

func testAgentDeath(t *testing.T, s *site) {
	j := s.newJob(t, Syd, "sh", "-c", "sleep 0.2; echo late; exit 4")
	defer j.close()
	p := j.build()
	w := p.warden
	m, files, err := j.spec.message(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.ask(t.Context(), m, files, func(m wire.Message) bool { _, ok := m.(*wire.Started); return ok }); err != nil {
		t.Fatal(err)
	}
	if err := w.conn.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return j.read().Cause != "" })
	if o := j.read(); o.Cause != CauseExit || o.Code != 4 || o.stdout != "late\n" {
		t.Errorf("exit %+v, printed %q", o.Exit, o.stdout)
	}
	_ = w.reap() // says that the socket is closed
}

// TestNothingIsLeft runs many jobs and counts descriptors and children of this process before and after. TestMain looks for
// the rest.
func TestNothingIsLeft(t *testing.T) { everyEngine(t, testNothingIsLeft) }

func testNothingIsLeft(t *testing.T, s *site) {
	run := func() {
		for _, mode := range s.modes {
			o := s.newJob(t, mode, "sh", "-c", "echo x; sleep 30 & exit 3").run()
			if o.Cause != CauseExit || o.Code != 3 || o.Orphans != 1 {
				t.Fatalf("exit %+v", o.Exit)
			}
		}
	}
	count := func() int {
		s.launcher.Wait()
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
			t.Errorf("child %d is left (%v)", pid, err)
		}
		return len(fds)
	}
	run()
	before := count()
	for range rounds(100) {
		run()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}
