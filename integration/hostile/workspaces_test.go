package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// leaveTraps fills a workspace with whatever could lead, hold or mislead an agent that collects, saves or writes to it.
const leaveTraps = `
import os, signal, socket
canary = %q
for name, target in {"out.txt": canary, "rootdir": "/", "r": "/proc/self/root", "init": "/proc/1/root", "up": "../" * 20, "loop": "loop",
                     "etc": "/etc", "passwd": "/etc/passwd", "fd": "/proc/self/fd/3", "gone": "/nowhere", "dev": "/dev/zero"}.items():
    os.symlink(target, name)
os.mkfifo("pipe"); os.mkfifo("pipe.txt"); os.mkdir("d"); os.mkfifo("d/pipe")
socket.socket(socket.AF_UNIX).bind("sock")
for name, text in {b"new\nline": "odd", b"bad\xff": "odd", b"-rf": "odd", b"--": "odd", b" ": "odd", b"$(reboot)": "odd", b"\x1b[2J": "odd", b"%%s%%n": "odd", b"plain": "plain"}.items():
    with open(name, "w") as f: f.write(text)
with open("sparse", "w") as f: f.truncate(900 << 20)
with open("shut", "w") as f: f.write("shut")
os.chmod("shut", 0); os.mkdir("shutdir", 0)
with open("set", "w") as f: f.write("set")
os.chmod("set", 0o6777)
os.link("plain", "hard")
deep = os.getcwd()
for _ in range(100): os.mkdir("n"); os.chdir("n")
os.chdir(deep)
print("trapped", flush=True)
`

// swapping leaves daemons that exchange an output for a link, and a directory for a link, as long as they live.
const swapping = `
for what in ("race", "race.d"):
    if os.fork() == 0:
        os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            for call, *args in ((os.mkdir, what), (os.rmdir, what), (os.symlink, "/etc", what), (os.unlink, what), (os.symlink, canary, what), (os.unlink, what), (os.link, "plain", what), (os.unlink, what)):
                try: call(*args)
                except OSError: pass
import time; time.sleep(0.02)
`

// stopped leaves processes that are stopped, blocked and busy with the workspace when the job ends.
const stopped = `
import ctypes, fcntl, os, signal, time
with open("counted", "w") as f: f.write("kept")
def child(act):
    if os.fork() == 0:
        os.setsid(); act(); os._exit(0)
def half():
    f = open("half", "w"); f.write("x" * 5000); f.flush(); fcntl.flock(f, fcntl.LOCK_EX); os.kill(os.getpid(), signal.SIGSTOP)
def busy():
    n = 0
    while True:
        n += 1
        with open("busy.tmp", "w") as f: f.write("%d\n" % n)
        os.rename("busy.tmp", "busy")
child(half); child(busy); child(busy)
child(lambda: os.open("pipe", os.O_RDONLY))
child(lambda: os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 5, "pipe", os.O_RDONLY, 0)]))
time.sleep(0.2)
`

// TestHostileWorkspaces: what an agent collects, writes to and saves is a jailed program's work. It follows no link out of the
// jail, waits for nobody, and takes no process of the job into the flush.
func TestHostileWorkspaces(t *testing.T) {
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		traps := fmt.Sprintf(leaveTraps, o.canary)
		t.Run("outputs", func(t *testing.T) { hostileOutputs(t, o, m, traps) })
		if m == modes[0] { // no mode has a part in it
			t.Run("files", func(t *testing.T) { hostileFiles(t, o, m, traps) })
		}
		t.Run("set-id", func(t *testing.T) { setIDRestored(t, o, m) })
		t.Run("stopped", func(t *testing.T) { stoppedAtFlush(t, o, m) })
	})
}

func hostileOutputs(t *testing.T, o *oracle, m mode, traps string) {
	for round := range 4 {
		req := m.in(python(traps+swapping, api.Limits{}))
		req.Outputs = []string{"*", "d/*", "race.d/*", "rootdir/*", "etc/**", "r/**", "init/**", "shutdir/*", "n/n/n/*"}
		start := time.Now()
		res := o.agent.Run(req)
		o.reached(t, res)
		if took := time.Since(start); took > 10*harness.Slow {
			t.Errorf("took %s", took)
		}
		if res.Outcome != api.OutcomeOK || !strings.HasPrefix(res.Stdout, "trapped\n") {
			t.Fatalf("%s %s\n%s%s", res.Outcome, res.Detail, res.Stdout, res.Stderr)
		}
		content := map[string]string{}
		for _, out := range res.Outputs {
			if strings.Contains(out.Content, o.secret) || strings.Contains(out.Content, "root:x:0:0") || strings.HasPrefix(out.Path, "/") {
				t.Errorf("output %q of the node: %q", out.Path, tail(out.Content))
			}
			content[out.Path] = out.Content
			if out.Path == "sparse" && (out.Content != "" || out.Omitted == "" || out.Bytes != 900<<20) {
				t.Errorf("sparse: %d bytes, content of %d, %q", out.Bytes, len(out.Content), out.Omitted)
			}
		}
		for path, want := range map[string]string{"plain": "plain", "hard": "plain", "new\nline": "odd", "-rf": "odd", "$(reboot)": "odd", "\x1b[2J": "odd", "shut": "shut", "set": "set"} {
			if content[path] != want {
				t.Errorf("round %d: output %q is %q, want %q", round, path, content[path], want)
			}
		}
		for _, path := range []string{"out.txt", "rootdir", "r", "up", "loop", "passwd", "fd", "dev", "pipe", "pipe.txt", "d/pipe", "sock", "gone"} {
			if _, ok := content[path]; ok {
				t.Errorf("%s is an output, and no regular file", path)
			}
		}
	}
}

func hostileFiles(t *testing.T, o *oracle, m mode, traps string) {
	prepare := m.in(python(traps, api.Limits{}))
	prepare.Workspace = "traps"
	if res := o.agent.Run(prepare); res.Outcome != api.OutcomeOK || res.Snapshot == nil {
		t.Fatalf("%s %s %s", res.Outcome, res.Detail, res.Stderr)
	}
	mark := filepath.Base(o.canary) + "-mark"
	for _, place := range []string{
		"rootdir/", "rootdir/tmp/", "r/", "init/tmp/", "up/", "loop/", "etc/", "fd/", "pipe/", "gone/", "plain/", "shutdir/", "d/../../", "/proc/1/root/tmp/",
	} {
		req := m.in(api.JobRequest{Command: []string{"true"}, Workspace: "traps", Files: []api.File{{Path: place + mark, Content: "x"}}})
		writeThrough(t, o, place, req)
	}
	for _, name := range []string{"out.txt", "rootdir", "pipe", "sock", "loop", "shut", "d"} {
		req := m.in(api.JobRequest{Command: []string{"true"}, Workspace: "traps", Files: []api.File{{Path: name, Content: "overwritten"}}})
		writeThrough(t, o, name, req)
	}
	for _, dir := range []string{"/", "/tmp", "/usr", "/etc", "/var/tmp", "/dev", "/root", o.agent.State, filepath.Dir(o.agent.Socket)} {
		if _, err := os.Lstat(filepath.Join(dir, mark)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file of a request lies in %s of the node: %v", dir, err)
		}
	}
}

// writeThrough posts a job whose files lead through a trap: refused, or written within the jail, and in no case waited for.
func writeThrough(t *testing.T, o *oracle, what string, req api.JobRequest) {
	t.Helper()
	start := time.Now()
	job, err := o.agent.Client.Run(t.Context(), req)
	var problem *client.Problem
	switch {
	case err != nil && !errors.As(err, &problem):
		t.Fatalf("%s: %v", what, err)
	case err == nil && job.Result.Outcome != api.OutcomeOK && (job.Result.Outcome != api.OutcomeStartFailed || job.Result.Detail == ""):
		t.Errorf("%s: %s %s", what, job.Result.Outcome, job.Result.Detail)
	case err == nil:
		o.reached(t, job.Result)
	}
	if took := time.Since(start); took > 5*harness.Slow {
		t.Errorf("%s: took %s", what, took)
	}
}

// setIDRestored is B15: a set-id program that comes back with its workspace is the job's own and gives nobody another id.
func setIDRestored(t *testing.T, o *oracle, m mode) {
	const prepare = "import os, shutil; shutil.copy('/usr/bin/id', 'id'); os.chmod('id', 0o6755); print('made', oct(os.stat('id').st_mode & 0o7777))"
	const use = "import os, subprocess; s = os.stat('id'); print(s.st_uid, s.st_gid, subprocess.run(['./id', '-u'], capture_output=True, text=True).stdout.strip(), os.statvfs('.').f_flag & os.ST_NOSUID != 0)"
	for _, c := range []struct{ code, want string }{{prepare, "made 0o6755\n"}, {use, "1000 1000 1000 True\n"}} {
		req := m.in(api.JobRequest{Command: []string{"python3", "-c", c.code}, Workspace: "set-id"})
		if res := o.agent.Run(req); res.Outcome != api.OutcomeOK || res.Stdout != c.want {
			t.Errorf("%s %q %q, want %q", res.Outcome, res.Stdout, res.Stderr, c.want)
		}
	}
}

func stoppedAtFlush(t *testing.T, o *oracle, m mode) {
	const look = "import os; print(open('counted').read(), len(open('half').read()), open('busy').read().strip().isdigit(), sorted(os.listdir('.')))"
	for range 2 {
		req := m.in(python("import os\nif not os.path.exists('pipe'): os.mkfifo('pipe')\n"+stopped, api.Limits{}))
		req.Workspace = "stopped"
		start := time.Now()
		res := o.agent.Run(req)
		if res.Outcome != api.OutcomeOK || res.Snapshot == nil || res.Usage.OrphansKilled < 4 {
			t.Fatalf("%s %s, %d orphans\n%s", res.Outcome, res.Detail, res.Usage.OrphansKilled, res.Stderr)
		}
		if took := time.Since(start); took > 5*harness.Slow {
			t.Errorf("took %s", took)
		}
		next := m.in(api.JobRequest{Command: []string{"python3", "-c", look}, Workspace: "stopped"})
		if res := o.agent.Run(next); res.Outcome != api.OutcomeOK || !strings.HasPrefix(res.Stdout, "kept 5000 True ") {
			t.Errorf("the workspace after it: %s %q %q", res.Outcome, res.Stdout, res.Stderr)
		}
	}
}
