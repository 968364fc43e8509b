package hostile

import (
	"encoding/json"
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

// TestErrorsNameNothingOfTheNode is F8: whatever goes wrong is said in the caller's own terms, in the API's errors and in
// results alike.
func TestErrorsNameNothingOfTheNode(t *testing.T) {
	a := harness.Start(t, harness.Options{Bucket: t.TempDir()})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	file := func(path string) []api.File { return []api.File{{Path: path, Content: "x"}} }
	python := func(change func(*api.JobRequest)) api.JobRequest {
		r := api.JobRequest{Language: "python", Code: "print(1)"}
		change(&r)
		return r
	}
	link := python(func(r *api.JobRequest) {
		r.Workspace = "w"
		r.Code = "import os\nos.symlink('/proc/1/root', 'out'); os.symlink('/etc/shadow', 's'); os.mkfifo('pipe'); os.symlink('loop', 'loop')"
	})
	for name, req := range map[string]api.JobRequest{
		"no program": {Command: []string{"/no/such/program"}}, "no rights": {Command: []string{"/etc/passwd"}}, "a directory": {Command: []string{"/usr"}},
		"cwd": python(func(r *api.JobRequest) { r.Cwd = "/no/such" }), "magic cwd": python(func(r *api.JobRequest) { r.Cwd = "/proc/self/fd/7" }),
		"init's cwd": python(func(r *api.JobRequest) { r.Cwd = "/proc/1/cwd" }), "up": python(func(r *api.JobRequest) { r.Cwd = "../../../../.." }),
		"file up": python(func(r *api.JobRequest) { r.Files = file("../../x") }), "file in usr": python(func(r *api.JobRequest) { r.Files = file("/usr/bin/x") }),
		"file in proc": python(func(r *api.JobRequest) { r.Files = file("/proc/self/x") }), "file in dev": python(func(r *api.JobRequest) { r.Files = file("/dev/null") }),
		"file below a file": python(func(r *api.JobRequest) { r.Files = append(file("a"), file("a/b")...) }), "long name": python(func(r *api.JobRequest) { r.Files = file(strings.Repeat("n", 300)) }),
		"outputs": python(func(r *api.JobRequest) { r.Outputs = []string{"/../*", "[", "/proc/**"} }), "base": python(func(r *api.JobRequest) { r.Base = "dir:../../etc" }),
		"links": link, "read of links": python(func(r *api.JobRequest) { r.Workspace = "w"; r.Outputs = []string{"*", "out/**"} }),
		"file through a link": python(func(r *api.JobRequest) { r.Workspace = "w"; r.Files = file("out/etc/x") }), "file over a fifo": python(func(r *api.JobRequest) { r.Workspace = "w"; r.Files = file("pipe") }),
		"too many files": {Command: []string{"python3", "-c", "for i in range(99999): open(str(i), 'w')"}, Limits: api.Limits{Inodes: 100}}, "id": python(func(r *api.JobRequest) { r.ID = "../x" }),
	} {
		t.Run(name, func(t *testing.T) {
			job, err := a.Client.Run(t.Context(), req)
			var problem *client.Problem
			if err != nil && !errors.As(err, &problem) {
				t.Fatal(err)
			}
			said, err := json.Marshal(job)
			if err != nil {
				t.Fatal(err)
			}
			text := string(said)
			if problem != nil {
				text = problem.Error()
			}
			for what, secret := range map[string]string{"state directory": a.State, "host name": host, "host's /root": "/root/", "slot": "/skel/", "source": ".go:", "program": "tolbooth-jail"} {
				if strings.Contains(text, secret) {
					t.Errorf("names the %s %q: %s", what, secret, text)
				}
			}
		})
	}
}

// TestCompilersAreJailed is F13: what a compiler is told to read or to run stays in the jail.
func TestCompilersAreJailed(t *testing.T) {
	a := harness.Start(t, harness.Options{Env: map[string]string{"AGENT_SECRET": "agent-secret-planted"}})
	o := newOracle(t, a)
	for _, jail := range []string{"syd", "minimal"} {
		for name, code := range map[string]string{
			"include":  `#include "` + o.canary + `"`,
			"embed":    "__asm__(\".incbin \\\"" + o.canary + "\\\"\");\nint main(void) { return 0; }",
			"environ":  "__asm__(\".incbin \\\"/proc/1/environ\\\"\");\nint main(void) { return 0; }",
			"shadow":   `#include "/etc/shadow"`,
			"endless":  "#include __FILE__\n#include __FILE__",
			"memory":   "#define A(x) x x x x x x x x x x\nchar *s = A(A(A(A(A(A(A(A(A(\"ab\")))))))));",
			"zero":     `#include "/dev/zero"`,
			"terminal": `#include "/dev/tty"`,
		} {
			t.Run(jail+"-"+name, func(t *testing.T) {
				res := a.Run(api.JobRequest{Jail: jail, Language: "c", Code: code, Limits: api.Limits{Wall: api.Duration(2 * harness.Slow), Memory: 256 << 20}})
				if res.Outcome == api.OutcomeOK || res.Outcome == api.OutcomeAgentLost || res.Outcome == api.OutcomeStartFailed {
					t.Errorf("outcome %s: %s%s", res.Outcome, res.Stdout, res.Stderr)
				}
				if strings.Contains(res.Stdout+res.Stderr, "agent-secret") {
					t.Errorf("the agent's environment came out: %s", res.Stderr)
				}
				o.reached(t, res)
			})
		}
	}
	o.left(t)
}

// TestWorkspacesAreInert is F14: nothing that tools run or read by its mere place is run by the agent, which saves, restores,
// lists and reads such a workspace.
func TestWorkspacesAreInert(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "run")
	if err := os.Chmod(filepath.Dir(mark), 0o777); err != nil {
		t.Fatal(err)
	}
	a := harness.Start(t, harness.Options{Bucket: t.TempDir()})
	plant := fmt.Sprintf(`
import os
sh, py = "#!/bin/sh\ntouch %[1]s\n", "open('%[1]s', 'w')\n"
for path, text in {
    ".git/hooks/post-checkout": sh, ".git/hooks/pre-commit": sh, ".git/hooks/fsmonitor": sh, ".git/HEAD": "ref: refs/heads/x\n",
    ".git/config": "[core]\n\tfsmonitor = .git/hooks/fsmonitor\n\tpager = touch %[1]s\n[alias]\n\tst = !touch %[1]s\n",
    ".vscode/tasks.json": '{"tasks": [{"command": "touch %[1]s", "runOptions": {"runOn": "folderOpen"}}]}', ".envrc": "touch %[1]s\n",
    "sitecustomize.py": py, "usercustomize.py": py, "conftest.py": py, "setup.py": py, "evil.pth": "import os; os.system('touch %[1]s')\n", "json.py": py,
    ".bashrc": sh, ".profile": sh, ".bash_profile": sh, "Makefile": "$(shell touch %[1]s)\nall:\n", ".gitattributes": "* filter=x\n", "package.json": '{"scripts": {"postinstall": "touch %[1]s"}}',
    "sh": sh, "ls": sh, "tar": sh, "git": sh, "python3": sh, "tolbooth": sh, "tolbooth-jail": sh, "libc.so.6": "x", "$(reboot)": "", "-rf": "",
}.items():
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    open(path, "w").write(text)
    os.chmod(path, 0o755)
`, mark)
	if res := a.Run(api.JobRequest{Workspace: "inert", Language: "python", Code: plant, Outputs: []string{"**"}}); res.Outcome != api.OutcomeOK || len(res.Outputs) < 20 {
		t.Fatalf("%s %d outputs %s", res.Outcome, len(res.Outputs), res.Stderr)
	}
	for _, cmd := range [][]string{{"/usr/bin/find", ".", "-type", "f"}, {"/usr/bin/true"}} {
		if res := a.Run(api.JobRequest{Workspace: "inert", Command: cmd, Outputs: []string{"**"}}); res.Outcome != api.OutcomeOK {
			t.Errorf("%v: %s %s", cmd, res.Outcome, res.Stderr)
		}
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something of the workspace ran on the node: %v", err)
	}
}

// TestJobsDoNotMeet is F16: two programs of one caller that run at the same time, with the same ids inside, see neither each
// other's processes nor files, sockets, keys, queues or environment.
func TestJobsDoNotMeet(t *testing.T) {
	for _, jail := range []string{"syd", "minimal"} {
		t.Run(jail, func(t *testing.T) {
			a := harness.Start(t, harness.Options{})
			first, err := a.Client.Start(t.Context(), api.JobRequest{Jail: jail, Command: []string{"python3", "-c", meeting, "first"}, Env: map[string]string{"PRIVATE": "meeting-secret"}})
			if err != nil {
				t.Fatal(err)
			}
			ready := false
			for e, err := range a.Client.Events(t.Context(), first.ID, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if ready = e.Type == "stdout" && strings.Contains(string(e.Data), "ready"); ready {
					break
				}
			}
			if !ready {
				t.Fatal("the first job ended")
			}
			time.Sleep(harness.Slow / 20)
			res := a.Run(api.JobRequest{Jail: jail, Command: []string{"python3", "-c", meeting, "second"}})
			if res.Outcome != api.OutcomeOK || strings.Contains(res.Stdout, "ESCAPED") || strings.Count(res.Stdout, "held") < 10 {
				t.Errorf("%s\n%s%s", res.Outcome, res.Stdout, res.Stderr)
			}
			if _, err := a.Client.Cancel(t.Context(), first.ID); err != nil {
				t.Error(err)
			}
			res = a.Run(api.JobRequest{Jail: jail, Command: []string{"python3", "-c", meeting, "second"}})
			if res.Outcome != api.OutcomeOK || strings.Contains(res.Stdout, "ESCAPED") {
				t.Errorf("after the first is gone: %s\n%s%s", res.Outcome, res.Stdout, res.Stderr)
			}
		})
	}
}

// meeting leaves something at every place where two programs could meet, or looks for it.
const meeting = `
import ctypes, glob, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
KEYCTL, ADD_KEY, SEARCH = (250, 248, 10) if os.uname().machine == "x86_64" else (219, 217, 10)
files = ["/tmp/m", "/dev/shm/m", "/run/m", "/workspace/m", "/var/tmp/m", "/home/m"]
def udp(port): s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", port)); return s
if sys.argv[1] == "first":
    for f in files:
        try: open(f, "w").write("meeting-secret"); os.chmod(f, 0o666)
        except OSError: pass
    abstract = socket.socket(socket.AF_UNIX); abstract.bind("\0meeting"); abstract.listen()
    tcp = socket.socket(); tcp.bind(("127.0.0.1", 7332)); tcp.listen()
    libc.shmget(0x7332, 4096, 0o1666); libc.semget(0x7332, 1, 0o1666); libc.msgget(0x7332, 0o1666)
    ctypes.CDLL("librt.so.1").mq_open(b"/meeting", os.O_CREAT | os.O_RDWR, 0o666, None)
    for ring in (-3, -4, -5): libc.syscall(ADD_KEY, b"user", b"meeting", b"secret", 6, ring)
    lock = open("/usr/bin/env"); __import__("fcntl").flock(lock, 2)
    print("ready", flush=True)
    time.sleep(60)
def say(name, escaped): print("ESCAPED" if escaped else "held", name, escaped)
for f in files: say(f, os.path.exists(f))
s = socket.socket(socket.AF_UNIX); say("abstract socket", s.connect_ex("\0meeting") == 0)
say("names of sockets", "meeting" in open("/proc/net/unix").read())
s = socket.socket(); say("loopback", s.connect_ex(("127.0.0.1", 7332)) == 0)
say("shm", libc.shmget(0x7332, 0, 0) != -1); say("sem", libc.semget(0x7332, 0, 0) != -1); say("msg", libc.msgget(0x7332, 0) != -1)
say("mq", ctypes.CDLL("librt.so.1").mq_open(b"/meeting", os.O_RDWR) != -1)
for ring in (-3, -4, -5): say("key in %d" % ring, libc.syscall(KEYCTL, SEARCH, ring, b"user", b"meeting", 0) != -1)
say("processes", [p for p in glob.glob("/proc/[0-9]*") if p not in ("/proc/1", "/proc/%d" % os.getpid())])
say("environment", "meeting-secret" in "".join(open(p, errors="replace").read() for p in glob.glob("/proc/[0-9]*/environ") if os.access(p, os.R_OK)))
try: __import__("fcntl").flock(open("/usr/bin/env"), 6); say("lock on a file of /usr", False)
except OSError as e: say("lock on a file of /usr", e.errno)
`
