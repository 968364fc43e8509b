package jail

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// ownFilter is Python that installs a filter of the job's own: own(nr, answer, flags) gives one call an answer and allows the rest.
// The real policy refuses that. The filter of these tests does not, so that they meet what is behind it: whichever filter sends the
// warden a call, it asks ours.
const ownFilter = `
import struct
def own(nr, answer, flags=0):
    code = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, nr, 6, 0, 0, answer, 6, 0, 0, 0x7fff0000)
    buf = ctypes.create_string_buffer(code, len(code))
    prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(buf)))
    L.prctl(38, 1, 0, 0, 0)
    return sc(SECCOMP, 1, flags, ctypes.addressof(prog))
`

func (s *site) filtering(t *testing.T, script string) *job {
	t.Helper()
	return s.refusals(t, "SECCOMP = "+itoa(unix.SYS_SECCOMP)+"; GETPPID = "+itoa(unix.SYS_GETPPID)+ownFilter+script)
}

// TestOwnTrace: a job that asks for a tracer itself meets none, and what it makes of its own calls is no refusal of ours. Nor
// does it choose the errno of those that are.
func TestOwnTrace(t *testing.T) { everyEngine(t, testOwnTrace) }

func testOwnTrace(t *testing.T, s *site) {
	o := s.filtering(t, `
print(own(GETPPID, 0x7ff00000 | 5), sc(GETPPID), sc(GETPPID))
print(own(KEYCTL, 0x7ff00000 | 5), sc(KEYCTL, 0))
`).run()
	if o.Cause != CauseExit || o.Code != 0 || o.stdout != "ok ENOSYS ENOSYS\nok EPERM\n" {
		t.Fatalf("exit %+v, printed %q, %s", o.Exit, o.stdout, o.stderr)
	}
	if len(o.denials) != 1 || o.denials[0].NR != unix.SYS_KEYCTL || o.denials[0].Errno != int(unix.EPERM) {
		t.Errorf("denials %+v", o.denials)
	}
}

// TestNestedListener: beside our listener the kernel takes no other, and a filter that would notify one finds nobody.
func TestNestedListener(t *testing.T) {
	s := newSite(t)
	o := s.filtering(t, `
print(own(GETPPID, 0x7fc00000, 8))      # SECCOMP_FILTER_FLAG_NEW_LISTENER
print(own(GETPPID, 0x7fc00000), sc(GETPPID), sc(KEYCTL, 0))
`).run()
	if o.Cause != CauseExit || o.stdout != "EBUSY\nok ENOSYS EPERM\n" {
		t.Errorf("exit %+v, printed %q, %s", o.Exit, o.stdout, o.stderr)
	}
	if len(o.denials) != 1 || o.denials[0].NR != unix.SYS_KEYCTL {
		t.Errorf("denials %+v", o.denials)
	}
}

// TestRefusalFlood: more refused calls than the burst are held back, none is lost from the count, and the warden's time is told.
func TestRefusalFlood(t *testing.T) { everyEngine(t, testRefusalFlood) }

func testRefusalFlood(t *testing.T, s *site) {
	const burst, over = 10000, 1000 // of package warden
	o := s.refusals(t, "n = "+itoa(burst+over)+`
for i in range(n): sc(KEYCTL, 0)
print("done")
`).run()
	var total int64
	for _, d := range o.denials {
		total += d.Count
	}
	if o.Cause != CauseExit || o.stdout != "done\n" || total != burst+over || len(o.denials) != 2 || o.Suppressed != 0 {
		t.Errorf("%d records count %d, exit %+v, printed %q, %s", len(o.denials), total, o.Exit, o.stdout, o.stderr)
	}
	if o.WardenUS <= 0 || o.WardenUS > 60_000_000 {
		t.Errorf("the warden used %d µs", o.WardenUS)
	}
	t.Logf("%d refusals took %v, the warden %d ms", burst+over, time.Duration(o.RunUS)*time.Microsecond, o.WardenUS/1000)
}

// TestKilledWhileWaiting kills callers in the middle of refused calls while others, with the numbers of the dead, are called
// something else: none is counted for another's name.
func TestKilledWhileWaiting(t *testing.T) { everyEngine(t, testKilledWhileWaiting) }

func testKilledWhileWaiting(t *testing.T, s *site) {
	o := s.refusals(t, `
import signal
for i in range(40):
    pid = os.fork()
    if pid == 0:
        open("/proc/self/comm", "w").write("caller")
        while True: sc(KEYCTL, 0)
    time.sleep(0.002); os.kill(pid, 9); os.waitpid(pid, 0)
    quiet = os.fork()
    if quiet == 0:
        open("/proc/self/comm", "w").write("quiet"); os._exit(0)
    os.waitpid(quiet, 0)
print("ok")
`).run()
	if o.Cause != CauseExit || o.stdout != "ok\n" {
		t.Errorf("exit %+v, printed %q, %s", o.Exit, o.stdout, o.stderr)
	}
	for _, d := range o.denials {
		if d.Program == "quiet" {
			t.Errorf("denial %+v", d)
		}
	}
}

// TestWardenKilledAnytime kills the warden at random moments of a job that forks and has calls refused.
func TestWardenKilledAnytime(t *testing.T) { everyEngine(t, testWardenKilledAnytime) }

func testWardenKilledAnytime(t *testing.T, s *site) {
	for range rounds(30) {
		j := s.refusals(t, `
while True:
    if os.fork() == 0:
        os.setsid()
        threading.Thread(target=lambda: [sc(KEYCTL, 0) for _ in range(50)]).start(); os._exit(0) if os.fork() else time.sleep(60)
    time.sleep(0.002)
`)
		j.limits.Pids = 64
		p := j.start()
		init := childOf(t, p.WardenPID())
		time.Sleep(rand.N(60 * time.Millisecond))
		if err := unix.Kill(p.WardenPID(), unix.SIGKILL); err != nil && err != unix.ESRCH {
			t.Fatal(err)
		}
		exit := j.wait(p)
		s.launcher.Wait()
		if left, err := j.place.Cgroup.Processes(); err != nil || len(left) > 0 || alive(init) {
			t.Errorf("left %v (%v), exit %+v", left, err, exit)
		}
		j.close()
	}
}

// TestExitKill: without a word from the agent, which would kill the cgroup too, the kernel alone ends the jail of a dead warden.
func TestExitKill(t *testing.T) { everyEngine(t, testExitKill) }

func testExitKill(t *testing.T, s *site) {
	o := s.newJob(t, Syd, "true").run()
	if !o.ExitKill {
		t.Errorf("exit %+v", o.Exit)
	}
	j := s.python(t, Syd, sleeper)
	defer j.close()
	p := j.start()
	waitFor(t, func() bool { return strings.Contains(j.read().stdout, "ready") })
	left, err := j.place.Cgroup.Processes()
	if err != nil || len(left) < 5 {
		t.Fatalf("%v, %v", left, err)
	}
	if err := unix.Kill(p.WardenPID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(hosttest.Slow(2 * time.Second))
	for _, pid := range left {
		for !dead(t, pid) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d lives", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	j.wait(p)
}

// TestDeniedSendmsg: where the policy denies the call by which the listener is handed over, the start says so at once.
func TestDeniedSendmsg(t *testing.T) {
	s := newSite(t)
	j := s.newJob(t, Syd, "true")
	defer j.close()
	j.spec.Filter = filterOf(map[uint32]uint32{unix.SYS_SENDMSG: unix.SECCOMP_RET_TRACE | uint32(unix.EPERM)}, unix.SECCOMP_RET_ALLOW)
	_, err := j.try()
	wantStartError(t, err, "filter with listener", 0)
}

// TestNothingButTheStart: between filter and program launch makes the calls that no policy may deny, and the runtime below it makes
// none: with all others denied a program still starts. What it does then is to die.
func TestNothingButTheStart(t *testing.T) { everyEngine(t, testNothingButTheStart) }

func testNothingButTheStart(t *testing.T, s *site) {
	for range rounds(100) {
		j := s.newJob(t, Syd, "true")
		j.spec.Filter = filterOf(map[uint32]uint32{
			unix.SYS_SENDMSG: unix.SECCOMP_RET_ALLOW, unix.SYS_EXECVE: unix.SECCOMP_RET_ALLOW, unix.SYS_EXIT_GROUP: unix.SECCOMP_RET_ALLOW,
		}, unix.SECCOMP_RET_TRACE|uint32(unix.EPERM))
		p, err := j.try()
		if err != nil {
			j.close()
			t.Fatal(err)
		}
		if exit := j.wait(p); exit.Cause != CauseSignal && exit.Cause != CauseExit {
			t.Errorf("exit %+v", exit)
		}
		j.close()
	}
}

// TestEngineOfPlace: an engine where none belongs, or none where one does, is refused before anything starts.
func TestEngineOfPlace(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		mode   Mode
		engine Engine
	}{{Syd, ""}, {Syd, "none"}, {Minimal, Notify}, {Minimal, Ptrace}} {
		j := s.newJob(t, c.mode, "true")
		j.place.Engine = c.engine
		if _, err := s.launcher.Prepare(t.Context(), j.place); err == nil {
			t.Errorf("mode %q took engine %q", c.mode, c.engine)
		}
		j.close()
	}
}
