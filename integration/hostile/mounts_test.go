package hostile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestMountsStay is B6: while a job runs, the node and the agent have exactly the mounts they had before, another job sees none of
// its mounts or what is in them, and no mount of a jail passes mounts on to another namespace or receives any.
func TestMountsStay(t *testing.T) {
	// Everything that can be named of a mount, but for those of the base, which are the same for all.
	const own = `
import os
rows = [l.split() for l in open("/proc/self/mountinfo")]
for r in rows:
    print("mount", r[0], r[2], r[4])
    if any(x.startswith(("shared:", "master:", "propagate_from:")) for x in r[6:r.index("-")]): print("propagates", *r)
for d in ("/tmp", "/run", "/dev/shm", "/workspace", "/var/tmp"):
    try: open(d + "/of-%s" % os.environ["WHO"], "w").close()
    except OSError: pass
    print("in", d, *[n for n in os.listdir(d) if n.startswith("of-")])
os.write(1, b"")
`
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		host := []string{"self", "1", strconv.Itoa(o.agent.PID)}
		before := make([]string, len(host))
		for i, p := range host {
			if before[i] = harness.Mounts(p); before[i] == "" {
				t.Fatalf("the mounts of %s cannot be read", p)
			}
		}
		req := m.in(python(own+"import time; print('ready', flush=True); time.sleep(7191)", api.Limits{}))
		req.Env = map[string]string{"WHO": "first"}
		first := begin(t, o.agent, req)
		for i, p := range host {
			if now := harness.Mounts(p); now != before[i] {
				t.Errorf("the mounts of %s changed while a job runs:\n%s\n%s", p, before[i], now)
			}
		}
		req = m.in(python(own, api.Limits{}))
		req.Env = map[string]string{"WHO": "second"}
		second := o.agent.Run(req)
		done := end(t, o.agent, first.ID)
		if strings.Contains(second.Stdout, "of-first") || strings.Contains(done.Result.Stdout, "of-second") || !strings.Contains(second.Stdout, "in /tmp of-second\n") {
			t.Errorf("jobs share a file system:\n%s\n%s", done.Result.Stdout, second.Stdout)
		}
		if both := done.Result.Stdout + second.Stdout; strings.Contains(both, "propagates") {
			t.Errorf("mounts propagate:\n%s", both)
		}
		for line := range strings.Lines(second.Stdout) {
			if strings.HasPrefix(line, "mount ") && strings.Contains(done.Result.Stdout, line) {
				t.Errorf("both jobs have the very mount %q", line)
			}
		}
		for i, p := range host {
			if now := harness.Mounts(p); now != before[i] {
				t.Errorf("the mounts of %s changed by two jobs:\n%s\n%s", p, before[i], now)
			}
		}
	})
}

// TestWorkingDirectory is B2 at the API: a working directory leads nowhere but into the jail (CVE-2024-21626), whether the request
// names a descriptor or a link in a restored workspace does.
func TestWorkingDirectory(t *testing.T) {
	const links = `
import os
for name, target in {"fd7": "/proc/self/fd/7", "fd3": "/proc/self/fd/3", "fd8": "/proc/self/fd/8", "up": "../../../../../../..", "cwd": "/proc/self/cwd/../../..",
                     "root": "/proc/self/root", "init": "/proc/1/root", "slash": "/", "gone": "/nowhere", "loop": "loop", "proc": "/proc/thread-self/cwd"}.items():
    os.symlink(target, name)
os.mkdir("shut", 0); os.mkdir("real"); os.symlink("real", "good")
`
	const where = "import os; print('cwd', os.getcwd()); print('above', sorted(os.listdir('../../../../../../../..')))"
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		for _, cwd := range []string{
			"/proc/self/fd/7", "/proc/self/fd/3", "/proc/self/cwd/../../..", "/proc/self/cwd", "/proc/1/root", "/proc/thread-self/fd/0", "/proc", "/dev/fd/7", "/sys", "..", "../..", "/workspace/..",
			"a/../../..", "//proc/self/fd/7", "/./proc/self/root", "/workspace/../proc/self/fd/7", "x\x00y", strings.Repeat("d/", 3000), strings.Repeat("n", 256),
		} {
			req := m.in(api.JobRequest{Command: []string{"true"}, Cwd: cwd})
			if job, err := o.agent.Client.Run(t.Context(), req); err == nil {
				t.Errorf("cwd %.40q was taken: %+v", cwd, job.Result)
			}
		}
		prepare := m.in(python(links, api.Limits{}))
		prepare.Workspace = "links"
		if res := o.agent.Run(prepare); res.Outcome != api.OutcomeOK {
			t.Fatalf("%s %s", res.Outcome, res.Stderr)
		}
		for _, link := range []string{"fd7", "fd3", "fd8", "up", "cwd", "root", "init", "slash", "gone", "loop", "proc", "shut", "good", "missing", "real/deep"} {
			req := m.in(api.JobRequest{Command: []string{"python3", "-c", where}, Cwd: link, Workspace: "links"})
			res := o.agent.Run(req)
			o.reached(t, res)
			switch {
			case res.Outcome == api.OutcomeStartFailed && res.Detail != "" && res.Stdout == "":
			case res.Outcome == api.OutcomeOK && strings.Contains(res.Stdout, "cwd /") && strings.Contains(res.Stdout, "'workspace'") && !strings.Contains(res.Stdout, "host-canary"):
			default:
				t.Errorf("%s: %s %q\n%s%s", link, res.Outcome, res.Detail, res.Stdout, res.Stderr)
			}
		}
	})
}

// TestHelperAsProgram is B3: a request that names the helper itself, by what the kernel calls it, gains nothing and changes nothing.
func TestHelperAsProgram(t *testing.T) {
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		sleeper := begin(t, o.agent, m.in(api.JobRequest{Command: []string{"sh", "-c", "echo ready; exec sleep 7192"}}))
		helper := fmt.Sprintf("/proc/%s/exe", parentOf(t, "sleep\x007192"))
		before := readFile(t, helper)
		for _, program := range []string{"/proc/self/exe", "/proc/thread-self/exe", "/proc/1/exe", "/proc/self/fd/3", "/proc/self/fd/4", "/dev/fd/3", "/dev/stdin"} {
			for _, role := range []string{"launch", "init", "warden", "--help"} {
				res := o.agent.Run(m.in(api.JobRequest{Command: []string{program, role}, Limits: api.Limits{Wall: api.Duration(5 * harness.Slow)}}))
				o.reached(t, res)
				if res.Outcome == api.OutcomeOK && role != "--help" {
					t.Errorf("%s %s: %s %q %q", program, role, res.Outcome, res.Stdout, res.Stderr)
				}
			}
		}
		if readFile(t, helper) != before || before == "" {
			t.Error("the helper changed")
		}
		end(t, o.agent, sleeper.ID)
	})
}

// parentOf waits for a process and returns its parent: for a job's program, the jail's init.
func parentOf(t *testing.T, cmdline string) string {
	t.Helper()
	for range 100 {
		for _, pid := range harness.Find(cmdline) {
			_, after, _ := strings.Cut(readFile(t, fmt.Sprintf("/proc/%d/status", pid)), "PPid:\t")
			parent, _, _ := strings.Cut(after, "\n")
			return parent
		}
		time.Sleep(harness.Slow / 50)
	}
	t.Fatalf("no process %q", cmdline)
	return ""
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
