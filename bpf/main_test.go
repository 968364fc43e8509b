package bpf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv("TOLBOOTH_BPF_DIAL"); spec != "" {
		dialAsChild(spec)
		return
	}
	hosttest.Main(m)
}

// unifiedCgroup is where the v2 hierarchy is mounted, as the kernel says.
func unifiedCgroup(t testing.TB) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	hosttest.Need(t, "cgroup2", false, "no cgroup v2 hierarchy is mounted")
	return ""
}

// testCgroup makes a control group and removes it at the end of the test.
func testCgroup(t testing.TB, parent, name string) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// load loads the control into a control group of its own.
func load(t testing.TB, o Options) *Egress {
	t.Helper()
	if o.Cgroup == "" {
		o.Cgroup = testCgroup(t, unifiedCgroup(t), "tb-bpf-"+filepath.Base(t.TempDir())+strings.ReplaceAll(t.Name(), "/", "-"))
	}
	e, err := Load(o)
	if err != nil {
		t.Fatalf("load: %+v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}
