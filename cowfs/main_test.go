package cowfs

import (
	"context"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

const testIDBase = 0x70000000

// newManager opens a manager on a state directory that is right for uppers, or skips.
func newManager(t testing.TB, change func(*Options)) *Manager {
	t.Helper()
	hosttest.Root(t)
	opts := Options{StateDir: stateDir(t), Node: "node-a"}
	if change != nil {
		change(&opts)
	}
	m, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close manager: %v", err)
		}
	})
	return m
}

// stateDir is a temporary directory that an overlay's upper may lie in. $TOLBOOTH_TEST_STATE names a better place than
// TMPDIR where that one lies on an overlay itself.
func stateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv("TOLBOOTH_TEST_STATE"), "cowfs-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove state directory: %v", err)
		}
	})
	if s := Probe(dir); !s.Overlay {
		hosttest.Need(t, "overlay-upper", false, s.Problem)
	}
	return dir
}

func create(t testing.TB, m *Manager, o CreateOptions) *Tree {
	t.Helper()
	if o.ID == "" {
		o.ID = "job-1"
	}
	if o.IDBase == 0 {
		o.IDBase = testIDBase
	}
	tree, err := m.Create(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Discard(); err != nil {
			t.Errorf("discard: %v", err)
		}
	})
	return tree
}

// inside is where a test plays the jailed program: a path below which the merged view lies.
func inside(tree *Tree, rel string) string {
	return fdPath(tree.Root()) + "/" + rel
}

func lstat(t testing.TB, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatalf("lstat %s: %v", path, err)
	}
	return st
}
