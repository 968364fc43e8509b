package cowfs

import (
	"errors"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestEveryWayOfNamingLayers: kernels before 6.13 know only the second.
func TestEveryWayOfNamingLayers(t *testing.T) {
	hosttest.Root(t)
	dir := stateDir(t)
	for _, api := range []layerAPI{layersByFD, layersByPath} {
		for _, volatile := range []bool{false, true} {
			t.Run(api.String(), func(t *testing.T) {
				if api == layersByFD {
					hosttest.Kernel(t, 6, 13, "overlay layers by descriptor")
				}
				if err := tryOverlay(dir, api, volatile); err != nil {
					t.Errorf("volatile=%v: %v", volatile, err)
				}
			})
		}
	}
}

func TestTreesWorkWithLayersByPath(t *testing.T) {
	m := newManager(t, nil)
	m.api = layersByPath
	tree := create(t, m, CreateOptions{})
	must(t, tree.WriteFile("f", []byte("x"), 0o644, JobID, JobID))
	if data, _, err := tree.ReadFile("f", 10); err != nil || string(data) != "x" {
		t.Errorf("%q %v", data, err)
	}
}

func TestAFailedMountSaysWhatTheKernelSaid(t *testing.T) {
	hosttest.Root(t)
	hosttest.Kernel(t, 6, 5, "overlay options of the new mount API, with messages")
	fs, err := openFS("overlay")
	must(t, err)
	defer fs.close()
	fs.set("no_such_option", "1")
	_, err = fs.mount(0)
	if err == nil || !strings.Contains(err.Error(), "no_such_option") || !strings.Contains(err.Error(), "(") {
		t.Errorf("got %v, want the option and the kernel's message", err)
	}
	if _, err := openFS("no-such-fs"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("unknown file system: %v", err)
	}
}
