package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Image mounts a fresh file system of its own on a loop device and returns where: what is done to its free space is the
// test's alone. mkfs is the program that makes it and its arguments, options those of the mount. The image is sparse.
func Image(t testing.TB, size int64, options string, mkfs ...string) string {
	t.Helper()
	return MountedImage(t, "loop-mount", size, options, mkfs...)
}

// MountedImage is Image with a need of its own name for what the mount options ask of the kernel.
func MountedImage(t testing.TB, need string, size int64, options string, mkfs ...string) string {
	t.Helper()
	Root(t)
	Program(t, mkfs[0])
	dir := t.TempDir()
	image, point := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
	for _, err := range []error{os.WriteFile(image, nil, 0o600), os.Truncate(image, size), os.Mkdir(point, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], image)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", mkfs, err, out)
	}
	out, err := exec.Command("mount", "-o", "loop,"+options, image, point).CombinedOutput()
	Need(t, need, err == nil, string(out))
	t.Cleanup(func() {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", point, err)
		}
	})
	return point
}
