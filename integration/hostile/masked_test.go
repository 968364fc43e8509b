package hostile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/cowfs/snapshot"
	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

// masked is what a job finds where its mounts belong, and what it writes through whatever it finds there.
const masked = `
import os, stat
for name, minor in ("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9):
    st = os.lstat("/dev/" + name)
    if not stat.S_ISCHR(st.st_mode) or st.st_rdev != os.makedev(1, minor): print("FOUND", name, oct(st.st_mode))
for d, kind in ("/dev", "tmpfs"), ("/dev/pts", "devpts"), ("/proc", "proc"), ("/tmp", "tmpfs"), ("/run", "tmpfs"), ("/dev/shm", "tmpfs"):
    if not [1 for l in open("/proc/self/mountinfo") if l.split()[4] == d and l.split(" - ")[1].split()[0] == kind]: print("FOUND no", kind, "at", d)
null = os.makedev(1, 3)
for name in ("kcore", "kallsyms", "keys", "slabinfo", "timer_list"):
    if os.path.exists("/proc/" + name) and os.stat("/proc/" + name).st_rdev != null: print("FOUND bare", name)
for path in ("/dev/null", "/dev/console", "/dev/pts/0", "/dev/tty", "/dev/stdin", "/etc/resolv.conf", "/etc/hosts", "/proc/sys/kernel/core_pattern", "/workspace/out", "/tmp/x", "out/core_pattern"):
    try: open(path, "w").write("|/of-the-jail")
    except OSError: pass
print("looked")
`

// TestRestoredOverMounts is B4 (CVE-2025-31133, -52565, -52881): a workspace whose snapshot somebody else wrote has links,
// files, fifos or nothing where the mounts of a jail belong. Its job does not start, and says why, or has its mounts where they
// belong. What the agent itself writes into the tree follows no link out of it.
func TestRestoredOverMounts(t *testing.T) {
	const pattern = "/proc/sys/kernel/core_pattern"
	link := func(target string, names ...string) func(string) error {
		return func(root string) error {
			for _, name := range names {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
					return err
				}
				if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	file := func(name string) func(string) error {
		return func(root string) error {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(root, name), []byte("x"), 0o777)
		}
	}
	trees := map[string]func(root string) error{
		"nodes":  link(pattern, "dev/null", "dev/zero", "dev/console", "dev/tty", "dev/ptmx", "dev/pts", "dev/shm", "dev/core"),
		"covers": link(pattern, "proc/kcore", "proc/sysrq-trigger", "proc/keys", "proc/sys", "proc/self"),
		"names":  link(pattern, "etc/resolv.conf", "etc/hosts", "etc/passwd", "workspace/out", "workspace/tolbooth-main.py"),
		"init":   link("/proc/1/root", "workspace/out", "home", "var"), "etc": link("/proc/sys/kernel", "etc"), "workspace": link("/proc/sys/kernel", "workspace"),
		"workspace up": link("../../../../etc", "workspace"), "dev is a file": file("dev"), "proc is a file": file("proc"), "null is a file": file("dev/null"),
	}
	for name, target := range map[string]string{"dev": "/proc/sys/kernel", "proc": "/", "sys": "/proc/sys", "tmp": "/proc/sys/kernel", "run": "/", "usr": "/workspace"} {
		trees[name] = link(target, name)
	}
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		before := readFile(t, pattern)
		for name, tree := range trees {
			workspace := strings.ReplaceAll(name, " ", "-")
			first := m.in(api.JobRequest{Command: []string{"true"}, Workspace: workspace})
			if res := o.agent.Run(first); res.Outcome != api.OutcomeOK || res.Snapshot == nil {
				t.Fatalf("%s: %s %s", name, res.Outcome, res.Detail)
			}
			plant(t, o.agent.Bucket, workspace, tree)
			req := m.in(python(masked, api.Limits{}))
			req.Workspace = workspace
			if m.jail == "syd" {
				req.Network.Mode = "open" // the agent writes /etc/resolv.conf
			}
			res := o.agent.Run(req)
			o.reached(t, res)
			switch {
			case res.Outcome == api.OutcomeStartFailed && res.Detail != "" && !strings.Contains(res.Detail, o.agent.State):
			case res.Outcome == api.OutcomeOK && res.Stdout == "looked\n":
			default:
				t.Errorf("%s: %s %s\n%s%s", name, res.Outcome, res.Detail, res.Stdout, res.Stderr)
			}
			if now := readFile(t, pattern); now != before {
				t.Fatalf("%s: %s is now %q", name, pattern, now)
			}
		}
	})
}

// plant replaces the newest snapshot of a workspace by one of a tree, as anybody could who may write to the bucket.
func plant(t *testing.T, bucket, workspace string, tree func(root string) error) {
	t.Helper()
	heads, err := filepath.Glob(filepath.Join(bucket, "*/workspaces", workspace, "head"))
	if err != nil || len(heads) != 1 {
		t.Fatalf("heads %v, %v", heads, err)
	}
	var head struct {
		DataSet  string `json:"data_set"`
		Snapshot string `json:"snapshot"`
	}
	if err := json.Unmarshal([]byte(readFile(t, heads[0])), &head); err != nil {
		t.Fatal(err)
	}
	b, err := store.OpenFile(bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	prefix, err := filepath.Rel(bucket, filepath.Dir(filepath.Dir(heads[0])))
	if err != nil {
		t.Fatal(err)
	}
	w, err := snapshot.NewWriter(t.Context(), b, snapshot.Layout{Prefix: prefix, Workspace: workspace, DataSet: head.DataSet}, snapshot.Info{Parent: head.Snapshot, CreatedAt: time.Now(), Base: "host"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	root := t.TempDir()
	if err := tree(root); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 1000, 1000))
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := w.Scan(t.Context(), dir, snapshot.ScanOptions{Skip: func(string) bool { return false }, MaxEntries: 1000}); err != nil {
		t.Fatal(err)
	}
	id, _, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(heads[0], []byte(strings.ReplaceAll(readFile(t, heads[0]), head.Snapshot, id)), 0o600); err != nil {
		t.Fatal(err)
	}
}
