package hostile

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// leave makes whatever can outlive a process or be met under a name, and says which of it could be made.
const leave = `
import ctypes, fcntl, os, socket
libc = ctypes.CDLL(None, use_errno=True)
made = []
def note(what, ok): made.append(what) if ok else None
note("shm", libc.shmget(0x7461, 4096, 0o1666) >= 0)
note("sem", libc.semget(0x7462, 1, 0o1666) >= 0)
note("msg", libc.msgget(0x7463, 0o1666) >= 0)
rt = ctypes.CDLL("librt.so.1")
note("mq", rt.mq_open(b"/left", os.O_CREAT | os.O_RDWR, 0o666, None) >= 0)
s = socket.socket(socket.AF_UNIX); s.bind("\0left"); s.listen()
note("abstract", True)
for name in ("/tmp/left", "/dev/shm/left", "/var/tmp/left", "/run/left", "/workspace/left"):
    try:
        with open(name, "w") as f: f.write("text of the first job")
        os.chmod(name, 0o666); made.append(name)
    except OSError: pass
os.mkfifo("/tmp/fifo")
locks = []
for name in ("/usr/bin/env", "/usr", "/etc/passwd", "/etc/hosts", "/"):
    fd = os.open(name, os.O_RDONLY)
    try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); locks.append(name)
    except OSError as e: print("lock", name, e.errno)
key = ctypes.CDLL(None).syscall
note("key", key(248, b"user", b"left", b"secret", 6, -4) > 0 or key(248, b"user", b"left", b"secret", 6, -5) > 0)
print("made", *made, "locked", *locks, flush=True)
`

// look tries to meet what leave made.
const look = `
import ctypes, fcntl, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for name, r in (("shm", libc.shmget(0x7461, 0, 0)), ("sem", libc.semget(0x7462, 0, 0)), ("msg", libc.msgget(0x7463, 0)),
                ("mq", ctypes.CDLL("librt.so.1").mq_open(b"/left", os.O_RDWR))):
    if r >= 0: print("met", name)
s = socket.socket(socket.AF_UNIX)
if s.connect_ex("\0left") == 0: print("met abstract")
for name in ("/tmp/left", "/dev/shm/left", "/var/tmp/left", "/run/left", "/workspace/left", "/tmp/fifo", "/dev/mqueue/left"):
    if os.path.lexists(name): print("met", name)
for p in ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg", "/proc/net/unix"):
    try: rows = open(p).read().strip().split("\n")[1:]
    except OSError: continue
    if p.endswith("unix"): rows = [r for r in rows if "left" in r]
    if rows: print("met", p, rows)
for name in ("/usr/bin/env", "/usr", "/etc/passwd", "/etc/hosts", "/"):
    try: fcntl.flock(os.open(name, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e: print("met lock", name, e.errno)
try:
    if [r for r in open("/proc/locks").read().split("\n") if r]: print("met locks")
except OSError: pass
key = libc.syscall
for ring in (-1, -2, -3, -4, -5):
    if key(250, 10, ring, b"user", b"left", 0) >= 0: print("met key in", ring)
if key(249, b"user", b"left", None, 0) >= 0: print("met key by request")
print("ids", open("/proc/self/uid_map").read().split())
print("looked", flush=True)
`

// TestIPCLeftovers is B17 and B18: what a job leaves under a name, or holds locked, is met by no other job, beside it or after
// it, with the same ids on the host or with others.
func TestIPCLeftovers(t *testing.T) {
	inEveryMode(t, []string{"--max-jobs", "2"}, func(t *testing.T, o *oracle, m mode) {
		ids := map[string]int{}
		check := func(when string) {
			t.Helper()
			res := o.agent.Run(m.in(python(look, api.Limits{})))
			if strings.Contains(res.Stdout, "met ") || !strings.HasSuffix(res.Stdout, "looked\n") {
				t.Errorf("%s: %s\n%s%s", when, res.Outcome, res.Stdout, res.Stderr)
			}
			_, id, _ := strings.Cut(res.Stdout, "ids ")
			ids[id]++
		}
		first := begin(t, o.agent, m.in(python(leave+"import time; time.sleep(600)", api.Limits{})))
		check("beside")
		nodeMayLock(t, "/usr/bin/env", "/usr")
		done := end(t, o.agent, first.ID)
		if made := done.Result.Stdout; !strings.Contains(made, "made shm sem msg") || !strings.Contains(made, "abstract /tmp/left /dev/shm/left") || !strings.Contains(made, "locked /usr/bin/env /usr") {
			t.Errorf("the first job made too little for a test: %s", made)
		}
		for range 8 {
			o.agent.Run(m.in(python(leave, api.Limits{})))
			check("after")
		}
		if len(ids) == 9 {
			t.Error("no two jobs had the same ids, so nothing is known of those")
		}
	})
}

// nodeMayLock: a job's lock on what it shares with the node keeps no program of the node waiting.
func nodeMayLock(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Errorf("the node cannot lock %s, which a job has locked: %v", p, err)
		}
		f.Close()
	}
}

// TestWatchesOfOthers is B17: inotify, fanotify and leases on what jobs share with the node tell nothing of the node's programs or
// of other jobs'.
func TestWatchesOfOthers(t *testing.T) {
	const watch = `
import ctypes, os, select, struct, time, fcntl
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0o4000)
for name in (b"/usr/bin", b"/usr/bin/env", b"/usr/lib", b"/usr", b"/etc", b"/etc/hosts", b"/", b"/dev", b"/dev/null"):
    libc.inotify_add_watch(fd, name, 0xfff)
try: fcntl.fcntl(os.open("/usr/bin/env", os.O_RDONLY), 1024, fcntl.F_RDLCK); print("lease")
except OSError as e: pass
while select.select([fd], [], [], 0)[0]: os.read(fd, 65536)
os.write(1, b"ready\n")
end = time.time() + 3
seen = 0
while time.time() < end:
    if select.select([fd], [], [], 0.1)[0]:
        seen += len(os.read(fd, 65536))
print("saw", seen)
`
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		job := begin(t, o.agent, m.in(python(watch, api.Limits{})))
		for range 3 {
			o.agent.Run(m.in(api.JobRequest{Command: []string{"env"}}))
			if b, err := os.ReadFile("/usr/bin/env"); err != nil || len(b) == 0 {
				t.Error(err)
			}
		}
		done, err := o.agent.Client.Get(t.Context(), job.ID, 20*harness.Slow)
		if err != nil || done.Result == nil || !strings.HasSuffix(done.Result.Stdout, "saw 0\n") {
			t.Errorf("%v %+v", err, done.Result)
		}
	})
}
