package jail

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// syscalls is a Python preamble: sc(nr, …) returns the result and the name of the errno.
const syscalls = `
import ctypes, errno, os, sys, threading, time
L = ctypes.CDLL(None, use_errno=True); L.syscall.restype = ctypes.c_long
def sc(nr, *a):
    ctypes.set_errno(0)
    r = L.syscall(ctypes.c_long(nr), *[ctypes.c_long(x) for x in a])
    return errno.errorcode.get(ctypes.get_errno(), "ok") if r == -1 else "ok"
KEYCTL, PTRACE, IO_URING, SWAPON, UNSHARE = NUMBERS
`

func (s *site) refusals(t testing.TB, script string) *job {
	t.Helper()
	numbers := strings.Join([]string{
		itoa(unix.SYS_KEYCTL), itoa(unix.SYS_PTRACE), itoa(unix.SYS_IO_URING_SETUP), itoa(unix.SYS_SWAPON), itoa(unix.SYS_UNSHARE),
	}, ",")
	return s.python(t, Syd, strings.Replace(syscalls, "NUMBERS", numbers, 1)+script)
}

func TestRefusals(t *testing.T) { everyEngine(t, testRefusals) }

func testRefusals(t *testing.T, s *site) {
	o := s.refusals(t, `
print(sc(KEYCTL, 0, -3), sc(IO_URING, 1, 0), sc(SWAPON, 0, 0), sc(PTRACE, 16, 1, 0, 0))
for i in range(20): sc(KEYCTL, 0, i)      # the first argument tells uses apart, the second does not
sc(KEYCTL, 5, 0)
if os.fork() == 0:
    open("/proc/self/comm", "w").write("other")
    sc(UNSHARE, 0x10000000); os._exit(0)
os.wait()
t = threading.Thread(target=lambda: sc(UNSHARE, 0x20000)); t.start(); t.join()
`).run()
	if o.Cause != CauseExit || o.Code != 0 || o.stdout != "EPERM ENOSYS EPERM EPERM\n" {
		t.Fatalf("exit %+v, printed %q, %s", o.Exit, o.stdout, o.stderr)
	}
	type seen struct {
		nr, errno int
		arg       uint64
		program   string
	}
	count := map[seen]int64{}
	for _, d := range o.denials {
		if d.Arch != nativeAuditArch || d.PID < 2 || d.AtUS <= 0 {
			t.Errorf("denial %+v", d)
		}
		count[seen{d.NR, d.Errno, d.Args[0], d.Program}] += d.Count
	}
	eperm, enosys := int(unix.EPERM), int(unix.ENOSYS)
	for want, n := range map[seen]int64{
		{unix.SYS_KEYCTL, eperm, 0, "python3"}:          21,
		{unix.SYS_KEYCTL, eperm, 5, "python3"}:          1,
		{unix.SYS_PTRACE, eperm, 16, "python3"}:         1,
		{unix.SYS_IO_URING_SETUP, enosys, 1, "python3"}: 1,
		{unix.SYS_SWAPON, eperm, 0, "python3"}:          1,
		{unix.SYS_UNSHARE, eperm, 0x10000000, "other"}:  1,
		{unix.SYS_UNSHARE, eperm, 0x20000, "python3"}:   1,
	} {
		if count[want] != n {
			t.Errorf("%+v recorded %d times, want %d; all: %v", want, count[want], n, count)
		}
	}
	if len(count) != 7 || o.Suppressed != 0 {
		t.Errorf("recorded %v, suppressed %d", count, o.Suppressed)
	}
}

func TestManyRefusals(t *testing.T) { everyEngine(t, testManyRefusals) }

func testManyRefusals(t *testing.T, s *site) {
	o := s.refusals(t, `
for i in range(300): sc(KEYCTL, i)
ts = [threading.Thread(target=lambda: [sc(PTRACE, 99) for i in range(300)]) for _ in range(8)]
for t in ts: t.start()
for t in ts: t.join()
`).run()
	var total int64
	for _, d := range o.denials {
		total += d.Count
	}
	if total+o.Suppressed != 2700 || len(o.denials) != 256 || o.Cause != CauseExit {
		t.Errorf("%d records count %d, suppressed %d, exit %+v", len(o.denials), total, o.Suppressed, o.Exit)
	}
}

// TestTracedLife runs what makes ptrace difficult, each to a normal end.
func TestTracedLife(t *testing.T) { everyEngine(t, testTracedLife) }

func testTracedLife(t *testing.T, s *site) {
	for name, c := range map[string]struct{ script, stdout string }{
		"threads": {`
def f(): time.sleep(0.001)
for _ in range(20):
    ts = [threading.Thread(target=f) for _ in range(10)]
    for t in ts: t.start()
    for t in ts: t.join()
print("ok")`, "ok\n"},
		"execve from a second thread": {`
threading.Thread(target=lambda: os.execv("/bin/echo", ["echo", "execed"])).start()
time.sleep(20)`, "execed\n"},
		"execve with busy threads": {`
for _ in range(8): threading.Thread(target=lambda: [sc(KEYCTL, 0) for _ in iter(int, 1)], daemon=True).start()
time.sleep(0.05)
os.execv("/bin/echo", ["echo", "execed"])`, "execed\n"},
		"stop and continue": {`
import signal
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGCONT, lambda *a: os._exit(5))
    while True: time.sleep(1)
time.sleep(0.1); os.kill(pid, signal.SIGSTOP)
p, st = os.waitpid(pid, os.WUNTRACED); print(os.WIFSTOPPED(st), os.WSTOPSIG(st))
time.sleep(0.1); print(os.waitpid(pid, os.WNOHANG)[0])      # it stays stopped
os.kill(pid, signal.SIGCONT); print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))`, "True 19\n0\n5\n"},
		"siginfo": {`
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
pid = os.fork()
if pid == 0:
    os.kill(os.getppid(), signal.SIGUSR1); os._exit(0)
i = signal.sigwaitinfo([signal.SIGUSR1]); print(i.si_pid == pid, i.si_uid, i.si_code); os.wait()`, "True 1000 0\n"},
		"SIGTRAP of its own": {`
import signal
got = []
signal.signal(signal.SIGTRAP, lambda s, f: got.append(s)); os.kill(os.getpid(), signal.SIGTRAP); print(got)`, "[5]\n"},
		"vfork": {`
import subprocess
print(sum(subprocess.run(["true"]).returncode for _ in range(50)))`, "0\n"},
		"killed while it is served": {`
import signal
for _ in range(30):
    pid = os.fork()
    if pid == 0:
        while True: sc(KEYCTL, 0)
    time.sleep(0.003); os.kill(pid, 9); os.waitpid(pid, 0)
print("ok")`, "ok\n"},
		"main thread leaves first": {`
def f():
    time.sleep(0.2); os.write(1, b"late\n"); os._exit(0)
threading.Thread(target=f).start()
L.pthread_exit.argtypes = [ctypes.c_void_p]; L.syscall(60, 0) if os.uname().machine == "x86_64" else L.syscall(93, 0)`, "late\n"},
	} {
		t.Run(name, func(t *testing.T) {
			o := s.refusals(t, c.script).run()
			if o.Cause != CauseExit || o.Code != 0 || o.stdout != c.stdout {
				t.Errorf("exit %+v, printed %q, %s", o.Exit, o.stdout, o.stderr)
			}
		})
	}
}

func TestManyProcesses(t *testing.T) { everyEngine(t, testManyProcesses) }

func testManyProcesses(t *testing.T, s *site) {
	n := strconv.Itoa(rounds(1000))
	o := s.newJob(t, Syd, "sh", "-c", "i=0; while [ $i -lt "+n+" ]; do /bin/true || exit 1; i=$((i+1)); done; echo $i").run()
	if o.Cause != CauseExit || o.stdout != n+"\n" {
		t.Errorf("exit %+v, printed %q, %s", o.Exit, o.stdout, o.stderr)
	}
	t.Logf("%s × /bin/true took %d ms", n, o.RunUS/1000)
}

// TestForeignABI makes an i386 call from a 64-bit process (A7).
func TestForeignABI(t *testing.T) { everyEngine(t, testForeignABI) }

func testForeignABI(t *testing.T, s *site) {
	hosttest.Need(t, "amd64", runtime.GOARCH == "amd64", "the machine has the i386 ABI as well")
	hosttest.Program(t, "gcc")
	dir := t.TempDir()
	source := filepath.Join(dir, "i386.c")
	if err := os.WriteFile(source, []byte(`
#include <stdio.h>
int main(void) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); printf("%ld\n", r); return 0; }
`), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-static", "-o", filepath.Join(dir, "i386"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "i386"))
	if err != nil {
		t.Fatal(err)
	}
	j := s.newJob(t, Syd, "/workspace/i386")
	if err := os.WriteFile("/proc/self/fd/"+itoa(j.root.Mount.Fd())+"/workspace/i386", program, 0o755); err != nil {
		t.Fatal(err)
	}
	o := j.run()
	if o.stdout != "-38\n" || len(o.denials) != 1 || o.denials[0].Arch != unix.AUDIT_ARCH_I386 || o.denials[0].NR != 20 {
		t.Errorf("exit %+v, printed %q, denials %+v", o.Exit, o.stdout, o.denials)
	}
}
