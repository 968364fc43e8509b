package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// peer is one way to run /usr/bin/true, timed from outside.
type peer struct {
	name string
	run  func() error
}

// peers are plain exec and the sandboxes that Debian packages.
func peers(b *testing.B) []peer {
	return []peer{
		{"plain", command("/usr/bin/true")},
		{"bwrap", bwrap(b)},
		{"crun", crun(b)},
		{"runc", oci(b, "runc")},
	}
}

func command(name string, args ...string) func() error {
	return func() error { return exec.Command(name, args...).Run() }
}

// bwrap is bubblewrap with every namespace: no cgroup, no filter, no private ids, no writable root.
func bwrap(b *testing.B) func() error {
	hosttest.Program(b, "bwrap")
	return command("bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
		"--tmpfs", "/tmp", "/usr/bin/true")
}

// oci runs a bundle made by the runtime's own `spec` command, with the node's /usr bound into it.
func oci(b *testing.B, runtimeName string, flags ...string) func() error {
	hosttest.Program(b, runtimeName)
	dir := bundle(b, runtimeName)
	n := 0
	return func() error {
		n++
		args := append(flags[:len(flags):len(flags)], "run", "--bundle", dir, fmt.Sprintf("tb-bench-%s-%d", runtimeName, n))
		return exec.Command(runtimeName, args...).Run()
	}
}

// crun refuses a hybrid cgroup tree, so there it runs on a thread of its own in a mount namespace of its own with only
// a cgroup2 mount, and without cgroups of its own: less work than it does elsewhere.
func crun(b *testing.B) func() error {
	if _, err := os.Stat("/sys/fs/cgroup/unified"); err != nil {
		return oci(b, "crun")
	}
	run := oci(b, "crun", "--cgroup-manager=disabled")
	calls, results := make(chan func() error), make(chan error)
	go hosttest.OnOwnThread(func() { // the mount namespace ends with the thread
		err := ownCgroupMount()
		for call := range calls {
			if err == nil {
				results <- call()
			} else {
				results <- err
			}
		}
	})
	b.Cleanup(func() { close(calls) })
	return func() error { calls <- run; return <-results }
}

func ownCgroupMount() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare the mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the cgroup tree: %w", err)
	}
	if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("mount cgroup2: %w", err)
	}
	return nil
}

func bundle(b *testing.B, runtimeName string) string {
	b.Helper()
	dir := b.TempDir()
	root := filepath.Join(dir, "rootfs")
	for _, d := range []string{"usr", "proc", "dev", "sys", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for _, l := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+l, filepath.Join(root, l)); err != nil {
			b.Fatal(err)
		}
	}
	spec := exec.Command(runtimeName, "spec")
	spec.Dir = dir
	if out, err := spec.CombinedOutput(); err != nil {
		b.Fatalf("%s spec: %v\n%s", runtimeName, err, out)
	}
	path := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(raw, &c); err != nil {
		b.Fatal(err)
	}
	process := c["process"].(map[string]any)
	process["args"], process["terminal"] = []string{"/usr/bin/true"}, false
	delete(process, "rlimits") // raising one needs CAP_SYS_RESOURCE
	c["mounts"] = append(c["mounts"].([]any), map[string]any{
		"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"rbind", "ro"},
	})
	raw, _ = json.Marshal(c)
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		b.Fatal(err)
	}
	return dir
}
