package cowfs

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestMountinfoNamesNoPathOfTheNode: a jail reads the options of its own root.
func TestMountinfoNamesNoPathOfTheNode(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	hosttest.OnOwnThread(func() { // attached in a mount namespace of its own, or no table lists it
		must(t, unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must(t, unix.MoveMount(int(tree.root.Fd()), "", unix.AT_FDCWD, t.TempDir(), unix.MOVE_MOUNT_F_EMPTY_PATH))
		table, err := os.ReadFile("/proc/thread-self/mountinfo")
		must(t, err)
		for line := range strings.Lines(string(table)) {
			if _, options, ok := strings.Cut(line, " - overlay tolbooth "); ok && strings.Contains(options, m.opts.StateDir) {
				t.Errorf("the root's options name the state directory: %s", options)
			}
		}
	})
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
