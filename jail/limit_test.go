package jail

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// within fails when a run took longer than its bound: a clock that fires late is a fault.
func within(t *testing.T, bound time.Duration, o outcome) {
	t.Helper()
	if took := time.Duration(o.RunUS) * time.Microsecond; took > hosttest.Slow(bound) {
		t.Errorf("took %v, bound %v", took, bound)
	}
}

func TestLimits(t *testing.T) { everyEngine(t, testLimits) }

func testLimits(t *testing.T, s *site) {
	support := s.parent.Support()
	const mib = 1 << 20
	for _, mode := range s.modes {
		for _, c := range []struct {
			name    string
			script  string
			prepare func(*job)
			cause   Cause
			bound   time.Duration
		}{
			{"wall", "while True: pass", func(j *job) { j.spec.Wall = 200 * time.Millisecond }, CauseWall, time.Second},
			{"wall while stopped", "import os; os.kill(os.getpid(), 19)", func(j *job) { j.spec.Wall = 300 * time.Millisecond }, CauseWall, time.Second},
			{"wall against kill(-1)", "import os, signal\ntry: os.kill(-1, 9)\nexcept OSError: pass\nsignal.pause()",
				func(j *job) { j.spec.Wall = 300 * time.Millisecond }, CauseWall, time.Second},
			{"wall against a stopped group", "import os, signal\nos.kill(0, 19); signal.pause()", func(j *job) { j.spec.Wall = 300 * time.Millisecond }, CauseWall, time.Second},
			{"cpu", "while True: pass", func(j *job) { j.spec.CPU = 300 * time.Millisecond }, CauseCPU, 30 * time.Second},
			{"cpu of children", "import os\nfor i in range(3): os.fork()\nwhile True: pass", func(j *job) { j.spec.CPU = 500 * time.Millisecond }, CauseCPU, 30 * time.Second},
			{"memory", "x=[]\nwhile 1: x.append(bytearray(1<<20))", func(j *job) { j.limits.MemoryBytes = 48 * mib }, CauseMemory, 5 * time.Second},
			{"memory of a child", "import os, time\nif os.fork() == 0:\n  x=[]\n  while 1: x.append(bytearray(1<<20))\ntime.sleep(20)",
				func(j *job) { j.limits.MemoryBytes = 48 * mib }, CauseMemory, 5 * time.Second},
			{"memory by tmpfs", "f=open('/tmp/x','wb')\nwhile 1: f.write(bytes(1<<20))",
				func(j *job) { j.limits.MemoryBytes = 48 * mib; j.root.Tmpfs[0].Bytes = 256 * mib }, CauseMemory, 5 * time.Second},
			{"fork bomb", "import os\nwhile 1:\n  try: os.fork()\n  except OSError: pass", func(j *job) { j.limits.Pids = 40 }, CausePids, 3 * time.Second},
			{"fork bomb that leaves", "import os\ntry:\n  while os.fork(): pass\nexcept OSError: os._exit(3)\nimport time; time.sleep(20)",
				func(j *job) { j.limits.Pids = 40 }, CausePids, 3 * time.Second},
			{"output", "while 1: print('A'*65536)", func(j *job) { j.spec.Output = 100000 }, CauseOutput, 3 * time.Second},
			{"output, then the end", "print('A'*20000)", func(j *job) { j.spec.Output = 10000 }, CauseOutput, 3 * time.Second},
			{"output of stderr", "import sys\nprint('ok', flush=True)\nwhile 1: sys.stderr.write('B'*1000)", func(j *job) { j.spec.Output = 5000 }, CauseOutput, 3 * time.Second},
			{"exactly the limit", "print('A'*9999)", func(j *job) { j.spec.Output = 10000 }, CauseExit, 3 * time.Second},
		} {
			t.Run(string(mode)+"/"+c.name, func(t *testing.T) {
				j := s.python(t, mode, c.script)
				c.prepare(j)
				hosttest.Need(t, "memory-controller", j.limits.MemoryBytes == 0 || support.Controllers["memory"] == "", "a memory limit ends a run")
				hosttest.Need(t, "pids-controller", j.limits.Pids == 0 || support.Controllers["pids"] == "", "a pids limit ends a run")
				o := j.run()
				if o.Cause != c.cause {
					t.Errorf("exit %+v, want %s; %s", o.Exit, c.cause, o.stderr)
				}
				within(t, c.bound, o)
				// How long this much CPU time takes is the machine's affair; how much is used is not.
				if most := j.spec.CPU + hosttest.Slow(500*time.Millisecond); c.cause == CauseCPU && (o.cpu < j.spec.CPU || o.cpu > most) {
					t.Errorf("used %v of CPU time, want %v to %v", o.cpu, j.spec.CPU, most)
				}
				checkOutput(t, o, j.spec.Output)
			})
		}
	}
}

func checkOutput(t *testing.T, o outcome, limit int64) {
	t.Helper()
	for _, s := range []struct {
		kept  string
		total int64
	}{{o.stdout, o.StdoutBytes}, {o.stderr, o.StderrBytes}} {
		if int64(len(s.kept)) != min(s.total, limit) {
			t.Errorf("kept %d of %d bytes, limit %d", len(s.kept), s.total, limit)
		}
	}
	if o.Truncated != (o.StdoutBytes > limit || o.StderrBytes > limit) || o.Truncated != (o.Cause == CauseOutput) {
		t.Errorf("truncated %v, exit %+v", o.Truncated, o.Exit)
	}
}

func TestLeftovers(t *testing.T) { everyEngine(t, testLeftovers) }

func testLeftovers(t *testing.T, s *site) {
	for _, mode := range s.modes {
		t.Run(string(mode)+"/daemon", func(t *testing.T) {
			start := time.Now()
			o := s.python(t, mode, `
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait(); print("done", flush=True)`).run()
			if o.Cause != CauseExit || o.Code != 0 || o.Orphans != 1 || o.stdout != "done\n" {
				t.Errorf("exit %+v, printed %q", o.Exit, o.stdout)
			}
			if took := time.Since(start); took > hosttest.Slow(3*time.Second) {
				t.Errorf("took %v: the daemon held stdout open", took)
			}
		})
		t.Run(string(mode)+"/zombies", func(t *testing.T) {
			o := s.python(t, mode, "ROUNDS = "+strconv.Itoa(rounds(2500))+`
import os, time
for i in range(ROUNDS):
    if os.fork() == 0:      # an orphan for init
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
time.sleep(0.3)
zombies = 0
for p in os.listdir("/proc"):
    if p.isdigit():
        try: zombies += open("/proc/" + p + "/stat").read().split(") ")[1][0] == "Z"
        except OSError: pass
print(zombies)`).run()
			if o.Cause != CauseExit || o.stdout != "0\n" {
				t.Errorf("exit %+v, zombies %q, %s", o.Exit, o.stdout, o.stderr)
			}
		})
		t.Run(string(mode)+"/last words", func(t *testing.T) { // what is in the pipe when all writers die
			o := s.newJob(t, mode, "sh", "-c", "head -c 60000 /dev/zero & wait; kill -9 $$").run()
			if o.Cause != CauseSignal || len(o.stdout) != 60000 {
				t.Errorf("exit %+v, kept %d", o.Exit, len(o.stdout))
			}
		})
	}
}

func TestStdin(t *testing.T) { everyEngine(t, testStdin) }

func testStdin(t *testing.T, s *site) {
	for _, mode := range s.modes {
		t.Run(string(mode), func(t *testing.T) {
			j := s.newJob(t, mode, "sh", "-c", "cat; cat /dev/stdin")
			fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			j.spec.Stdin = newFile(fd)
			defer j.spec.Stdin.Close()
			if _, err := j.spec.Stdin.WriteString("hello\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := j.spec.Stdin.Seek(0, 0); err != nil {
				t.Fatal(err)
			}
			if err := unix.Fchown(fd, testUIDBase+testUser, testUIDBase+testUser); err != nil {
				t.Fatal(err)
			}
			if o := j.run(); !strings.HasPrefix(o.stdout, "hello\n") || o.stderr != "" {
				t.Errorf("printed %q, %q", o.stdout, o.stderr)
			}
		})
	}
}

func TestSignalAndCancel(t *testing.T) { everyEngine(t, testSignalAndCancel) }

func testSignalAndCancel(t *testing.T, s *site) {
	const loop = `
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *a: os.write(1, b"usr1\n")) # print would be re-entered
signal.signal(signal.SIGTERM, %s)
os.write(1, b"ready\n")
while True: time.sleep(1)`
	for _, mode := range s.modes {
		for _, c := range []struct {
			name, onTerm string
			cause        Cause
			want         Cause
			code, signal int
		}{
			{"polite", "lambda *a: sys.exit(9)", CauseCancelled, CauseCancelled, 9, 0},
			{"stubborn", "signal.SIG_IGN", CauseCancelled, CauseCancelled, 0, 9},
			{"disk", "lambda *a: sys.exit(9)", CauseDisk, CauseDisk, 0, 9},
		} {
			t.Run(string(mode)+"/"+c.name, func(t *testing.T) {
				j := s.python(t, mode, strings.Replace(loop, "%s", c.onTerm, 1))
				defer j.close()
				p := j.start()
				waitFor(t, func() bool { return strings.Contains(j.read().stdout, "ready") })
				if err := p.Signal(unix.SIGUSR1); err != nil {
					t.Error(err)
				}
				waitFor(t, func() bool { return strings.Contains(j.read().stdout, "usr1") })
				p.Cancel(c.cause)
				exit := j.wait(p)
				if exit.Cause != c.want || exit.Code != c.code || exit.Signal != c.signal {
					t.Errorf("exit %+v", exit)
				}
				p.Cancel(c.cause) // after the end: nothing
				if err := p.Signal(unix.SIGUSR1); err != nil {
					t.Errorf("signal after the end: %v", err)
				}
			})
		}
	}
}

func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hosttest.Slow(10 * time.Second)); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("waited 10 s")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The warden may hear of the output before it hears of execve; that is no failed start.
func TestAProgramThatPrintsTooMuchAtOnceHasStarted(t *testing.T) {
	everyEngine(t, testAProgramThatPrintsTooMuchAtOnceHasStarted)
}

func testAProgramThatPrintsTooMuchAtOnceHasStarted(t *testing.T, s *site) {
	for _, mode := range s.modes {
		t.Run(string(mode), func(t *testing.T) {
			for range 40 {
				j := s.newJob(t, mode, "/bin/echo", "more than one byte")
				j.spec.Output = 1
				if o := j.run(); o.Cause != CauseOutput || o.stdout+o.stderr != "m" {
					t.Fatalf("exit %+v, printed %q", o.Exit, o.stdout)
				}
			}
		})
	}
}
