package jail

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lookAround prints what a program finds about itself, as JSON.
const lookAround = `
import json, os, resource, socket
status = dict(l.split(":\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\t" in l)
def tries(path, flags):
    try:
        os.close(os.open(path, flags)); return "ok"
    except OSError as e:
        return os.strerror(e.errno)
print(json.dumps({
  "fds": sorted(f for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)),
  "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()] + os.getgroups(),
  "caps": [status[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
  "nnp": status["NoNewPrivs"], "env": sorted(os.environ), "cwd": os.getcwd(), "umask": os.umask(0),
  "core": resource.getrlimit(resource.RLIMIT_CORE), "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
  "host": socket.gethostname(), "pids": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
  "cgroup": open("/proc/self/cgroup").read(), "sid": os.getsid(0) == os.getpid(),
  "blocked": [status[k] for k in ("SigBlk", "SigIgn")], "oom": open("/proc/self/oom_score_adj").read().strip(),
  "mounts": [l.split()[4] for l in open("/proc/self/mountinfo")], "mode": oct(os.stat("/tmp").st_mode),
  "root": sorted(os.listdir("/")),
  "tries": {p: tries(p, f) for p, f in {
    "/proc/1/mem": 2, "/proc/1/maps": 0, "/proc/1/environ": 0, "/proc/1/root": 0, "/proc/1/fd": 0, "/proc/1/exe": 0, "/proc/1/cwd": 0,
    "/proc/sys/kernel/core_pattern": 1, "/proc/sysrq-trigger": 1, "/proc/self/oom_score_adj": 1, "/proc/self/uid_map": 1,
    "/usr/x": 0o101, "/etc/x": 0o101, "/x": 0o101, "/workspace/x": 0o101, "/tmp/x": 0o101, "/dev/shm/x": 0o101, "/run/x": 0o101, "/dev/x": 0o101,
    "/dev/null": 2, "/dev/stdin": 0, "/dev/ptmx": 2}.items()},
  "sizes": {p: len(open("/proc/" + p).read()) for p in ("keys", "timer_list", "interrupts") if os.path.exists("/proc/" + p)},
}))
`

type surroundings struct {
	FDs     []string
	IDs     []int
	Caps    []string
	NNP     string
	Env     []string
	Cwd     string
	Umask   int
	Core    [2]int64
	Nofile  [2]int64
	Host    string
	Pids    []int
	Cgroup  string
	SID     bool
	Blocked []string
	OOM     string
	Mounts  []string
	Mode    string
	Root    []string
	Tries   map[string]string
	Sizes   map[string]int
}

func TestSurroundings(t *testing.T) {
	s := newSite(t)
	// What the agent has open and in its environment must not arrive. This one is inherited by every exec.
	leak, err := os.Open("/etc")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENT_SECRET", "x")
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			o := s.python(t, mode, lookAround).run()
			var got surroundings
			if err := json.Unmarshal([]byte(o.stdout), &got); err != nil {
				t.Fatalf("%v: %+v %s", err, o.Exit, o.stderr)
			}
			checkSurroundings(t, mode, got)
			if o.Landlock == 0 {
				t.Error("no Landlock")
			}
		})
	}
}

func checkSurroundings(t *testing.T, mode Mode, got surroundings) {
	t.Helper()
	const none = "0000000000000000"
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"descriptors", got.FDs, []string{"0", "1", "2"}},
		{"ids", got.IDs, []int{1000, 1000, 1000, 1000, 1000}},
		{"capabilities", got.Caps, []string{none, none, none, none, none}},
		{"no_new_privs", got.NNP, "1"},
		{"environment", got.Env, []string{"HOME", "LANG", "PATH"}},
		{"cwd", got.Cwd, "/workspace"},
		{"umask", got.Umask, 0o022},
		{"core limit", got.Core, [2]int64{1, 1}},
		{"open files limit", got.Nofile, [2]int64{256, 256}},
		{"host name", got.Host, "sandbox"},
		{"processes", got.Pids, []int{1, got.Pids[len(got.Pids)-1]}},
		{"session", got.SID, true},
		{"oom_score_adj", got.OOM, "1000"},
		{"mode of /tmp", got.Mode, "0o41777"},
		{"signals blocked, and ignored (python ignores PIPE and XFSZ)", got.Blocked, []string{none, "0000000001001000"}},
		{"the v2 cgroup", strings.Contains(got.Cgroup, "0::/\n"), true},
	} {
		if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	for path, want := range map[string]string{
		"/proc/1/mem": "Permission denied", "/proc/1/maps": "Permission denied", "/proc/1/environ": "Permission denied",
		"/proc/1/root": "Permission denied", "/proc/1/fd": "Permission denied", "/proc/1/exe": "Permission denied", "/proc/1/cwd": "Permission denied",
		"/workspace/x": "ok", "/tmp/x": "ok", "/dev/shm/x": "ok", "/dev/null": "ok", "/dev/stdin": "ok", "/dev/ptmx": "ok",
		"/usr/x": "Read-only file system",
	} {
		if got.Tries[path] != want {
			t.Errorf("open %s: %s, want %s", path, got.Tries[path], want)
		}
	}
	for _, path := range []string{"/etc/x", "/x", "/run/x", "/dev/x", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern"} {
		if got.Tries[path] == "ok" {
			t.Errorf("could write %s", path)
		}
	}
	for name, size := range got.Sizes {
		if size != 0 {
			t.Errorf("/proc/%s has %d bytes to read", name, size)
		}
	}
	if mode == Syd && got.Mounts[0] != "/" {
		t.Errorf("first mount is %s: the node's root is still there", got.Mounts[0])
	}
}

func TestHostileTargets(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct{ path, target string }{
		{"tmp", "/usr"}, {"tmp", "proc"}, {"run", "../../../../etc"}, {"proc", "/tmp"}, {"dev", "/proc/self/root"},
	} {
		t.Run(c.path, func(t *testing.T) {
			j := s.newJob(t, Syd, "true")
			defer j.close()
			at := fmt.Sprintf("/proc/self/fd/%d/%s", j.root.Mount.Fd(), c.path)
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(c.target, at); err != nil {
				t.Fatal(err)
			}
			_, err := j.try()
			wantStartError(t, err, "", unix.ELOOP, "symlink")
		})
	}
}
