package socket

import (
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// fingerprint prints every entry below the workspace: path, type, mode, ids, ns mtime, size, link target, link count,
// xattrs, and a hash of the content.
const fingerprint = `
import hashlib, os, stat
for d, dirs, files in sorted(os.walk(b".")):
    for n in sorted(set(dirs + files) - {b"tolbooth-main.py"}): # the code itself is no part of the workspace
        p = os.path.join(d, n); s = os.lstat(p)
        row = [repr(p), oct(s.st_mode), s.st_uid, s.st_gid, s.st_mtime_ns, s.st_nlink if not stat.S_ISDIR(s.st_mode) else "-"]
        if stat.S_ISREG(s.st_mode): row += [s.st_size, s.st_blocks < 100 or "dense", hashlib.sha256(open(p, "rb").read()).hexdigest()]
        if stat.S_ISLNK(s.st_mode): row.append(repr(os.readlink(p)))
        row += [(a, os.getxattr(p, a, follow_symlinks=False)) for a in sorted(os.listxattr(p, follow_symlinks=False))]
        print(*row)
`

// plant makes a tree with every kind of entry that a job can make.
const plant = `
import os, struct
os.makedirs("d/e/f"); open("d/file", "w").write("text\n"); open("empty", "w")
open("big", "wb").write(os.urandom(3 << 20) + b"z" * (2 << 20))
with open("sparse", "wb") as f: f.truncate(8 << 20); f.seek(4 << 20); f.write(b"x")
os.link("d/file", "hard"); os.symlink("d/file", "soft"); os.symlink("/nowhere/at all", "dangling"); os.mkfifo("fifo")
open(b"bad\xff name\n", "w").write("odd"); open("x" * 255, "w").write("long")
os.chmod("d/file", 0o640); os.chmod("d/e", 0o1700); os.setxattr("d/file", "user.k", b"\0\1v"); os.setxattr("d", "user.d", b"dir")
for i in range(300): open("d/e/f/%d" % i, "w").write(str(i) * 10)
for p, t in (("d/file", 1234567890123456789), ("empty", -5 * 10**9), ("d/e/f/7", 1)): os.utime(p, ns=(t, t))
os.utime("soft", ns=(9, 10**18 + 7), follow_symlinks=False)
for p in ("d/e/f", "d/e", "d"): os.utime(p, ns=(1, 10**18 + 1))
`

// TestWorkspaceMovesBetweenAgents: what one agent flushed, a second one with an empty state directory on the same bucket
// sees byte for byte; what it deletes stays deleted for the first.
func TestWorkspaceMovesBetweenAgents(t *testing.T) {
	bucket := t.TempDir()
	first := harness.Start(t, harness.Options{Bucket: bucket})
	second := harness.Start(t, harness.Options{Bucket: bucket})

	made := first.Run(api.JobRequest{Language: "python", Workspace: "tree", Code: plant + fingerprint})
	if made.Outcome != api.OutcomeOK || made.Snapshot == nil {
		t.Fatalf("%+v", made)
	}
	seen := second.Run(api.JobRequest{Language: "python", Workspace: "tree", Code: fingerprint})
	if seen.Stdout != made.Stdout || seen.Stdout == "" {
		t.Errorf("the trees differ:\n%s", firstDifference(made.Stdout, seen.Stdout))
	}

	if res := second.Run(api.JobRequest{Command: []string{"sh", "-c", "rm -r d hard && echo new >d"}, Workspace: "tree"}); res.Outcome != api.OutcomeOK {
		t.Fatalf("%+v", res)
	}
	res := first.Run(api.JobRequest{Command: []string{"sh", "-c", "cat d; ls hard"}, Workspace: "tree"})
	if res.Stdout != "new\n" || !strings.Contains(res.Stderr, "No such file") {
		t.Errorf("deleted entries came back: %q %q", res.Stdout, res.Stderr)
	}
}

// TestWorkspaceSurvivesEveryEnd: work in a named workspace is flushed whatever ends the job.
func TestWorkspaceSurvivesEveryEnd(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for name, c := range map[string]struct {
		script string
		limits api.Limits
		want   api.Outcome
	}{
		"exit":   {"exit 3", api.Limits{}, api.OutcomeExit},
		"signal": {"kill -SEGV $$", api.Limits{}, api.OutcomeSignal},
		"wall":   {"sleep 60", api.Limits{Wall: api.Duration(harness.Slow)}, api.OutcomeWallLimit},
		"memory": {"head -c 1G /dev/zero | tail", api.Limits{Memory: api.Quantity(64 << 20)}, api.OutcomeMemoryLimit},
	} {
		t.Run(name, func(t *testing.T) {
			res := a.Run(api.JobRequest{Command: []string{"bash", "-c", "echo kept >f; " + c.script}, Workspace: name, Limits: c.limits})
			if res.Outcome != c.want || res.Snapshot == nil {
				t.Fatalf("%s %s snapshot %v", res.Outcome, res.Detail, res.Snapshot)
			}
			if res := a.Run(api.JobRequest{Command: []string{"cat", "f"}, Workspace: name}); res.Stdout != "kept\n" {
				t.Errorf("%q %q", res.Stdout, res.Stderr)
			}
		})
	}
}

// TestWorkspaceSurvivesAgentKill: an agent that is killed while a job writes loses nothing that was flushed, and its
// successor on the same state directory serves the workspace.
func TestWorkspaceSurvivesAgentKill(t *testing.T) {
	state, bucket := t.TempDir(), t.TempDir()
	first := harness.Start(t, harness.Options{State: state, Bucket: bucket})
	if res := first.Run(api.JobRequest{Command: []string{"sh", "-c", "echo one >f"}, Workspace: "w"}); res.Snapshot == nil {
		t.Fatalf("%+v", res)
	}
	no := false
	job, err := first.Client.Start(t.Context(), api.JobRequest{Command: []string{"sh", "-c", "echo two >g; sleep 600"}, Workspace: "w", Wait: &no})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(harness.Slow / 2)
	first.Kill()

	second := harness.Start(t, harness.Options{State: state, Bucket: bucket})
	lost, err := second.Client.Get(t.Context(), job.ID, 0)
	if err != nil || lost.Result == nil || lost.Result.Outcome != api.OutcomeAgentLost {
		t.Errorf("the lost job: %+v %v", lost, err)
	}
	res := second.Run(api.JobRequest{Command: []string{"sh", "-c", "cat f g"}, Workspace: "w"})
	if res.Stdout != "one\ntwo\n" {
		t.Errorf("after the crash: %s %q %q", res.Outcome, res.Stdout, res.Stderr)
	}
}

func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return "- " + as[i] + "\n+ " + bs[i]
		}
	}
	return "one has more lines"
}
