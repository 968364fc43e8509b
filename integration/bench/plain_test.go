package bench

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// plain runs programs without a jail on the same file system that a job has: a tree of the agent's own kind, in a mount
// namespace of the benchmark's own, entered by chroot. No control group, no filter, no other namespace.
type plain struct {
	trees *cowfs.Manager
	n     int
}

// idBase is the host id of a tree's id 0: a range that no agent of these benchmarks uses.
const idBase = 0x60000000

// user is the job's user in the tree.
const user = 1000

func newPlain(b *testing.B) *plain {
	b.Helper()
	m, err := cowfs.Open(cowfs.Options{StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	})
	return &plain{trees: m}
}

// run makes a tree, puts the workload's files into it and times the program from its start to its end.
func (p *plain) run(b *testing.B, w workload) time.Duration {
	b.Helper()
	p.n++
	tree, err := p.trees.Create(b.Context(), cowfs.CreateOptions{ID: fmt.Sprintf("bench-%d", p.n), Slot: 1, IDBase: idBase})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := tree.Discard(); err != nil {
			b.Error(err)
		}
	}()
	for _, f := range w.files {
		data := []byte(f.Content)
		if f.Encoding == "base64" {
			if data, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
				b.Fatal(err)
			}
		}
		mode := os.FileMode(0o644)
		if f.Mode == "0755" {
			mode = 0o755
		}
		if err := tree.WriteFile(f.Path, data, mode, user, user); err != nil {
			b.Fatal(err)
		}
	}
	root := b.TempDir()
	var took time.Duration
	hosttest.OnOwnThread(func() { took, err = inTree(tree, root, w.argv) }) // the mounts end with the thread
	if err != nil {
		b.Fatalf("%s: %v", w.name, err)
	}
	return took
}

func inTree(tree *cowfs.Tree, root string, argv []string) (time.Duration, error) {
	if err := attach(tree, root); err != nil {
		return 0, err
	}
	cmd := &exec.Cmd{
		Path: argv[0], Args: argv, Dir: "/workspace",
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/workspace", "TMPDIR=/tmp", "LANG=C.UTF-8"},
		SysProcAttr: &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: idBase + user, Gid: idBase + user},
		},
	}
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return took, nil
}

// attach puts a tree and what a jail mounts itself below root, for the calling thread and its children.
func attach(tree *cowfs.Tree, root string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare the mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range append([]cowfs.Mount{{Target: "/", File: tree.Root()}}, tree.Mounts()...) {
		if err := unix.MoveMount(int(m.File.Fd()), "", unix.AT_FDCWD, filepath.Join(root, m.Target), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("attach %s: %w", m.Target, err)
		}
	}
	for _, m := range []struct{ kind, target, data string }{{"proc", "proc", ""}, {"tmpfs", "tmp", "mode=1777"}, {"tmpfs", "run", "mode=1777"}} {
		if err := unix.Mount(m.kind, filepath.Join(root, m.target), m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}
