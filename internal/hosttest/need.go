package hosttest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Need skips the test unless ok. name is the kind of need (root, kernel, program, kvm, …), why the reason in words.
func Need(t testing.TB, name string, ok bool, why string) {
	t.Helper()
	if ok {
		return
	}
	if err := record(os.Getenv("TOLBOOTH_SKIPS"), name, why, t.Name()); err != nil {
		t.Fatalf("record skip: %v", err) // an uncounted skip is a silent one
	}
	t.Skipf("%s: %s", name, why)
}

// Root skips the test unless it runs with uid 0. With TOLBOOTH_UNIT=1 it skips in any case, and that skip is not
// counted: the same test runs again in `make test-root`, alone on the machine.
func Root(t testing.TB) {
	t.Helper()
	if os.Getenv("TOLBOOTH_UNIT") == "1" {
		Filters(t) // where nothing runs them later, the skip counts
		t.Skip("root: left to make test-root")
	}
	Need(t, "root", os.Getuid() == 0, "needs uid 0")
}

// Filters skips the test where the kernel loads no seccomp filter any more, as .ci/kernel has found before the tests began: the
// test would hang and could not be killed. It is for tests that need no root; those that do are not begun at all there.
func Filters(t testing.TB) {
	t.Helper()
	why := os.Getenv("TOLBOOTH_NO_FILTERS")
	Need(t, "kernel", why == "", why)
}

// Kernel skips the test on kernels before major.minor, where the named feature does not exist.
func Kernel(t testing.TB, major, minor int, what string) {
	t.Helper()
	gotMajor, gotMinor, err := kernelVersion()
	if err != nil {
		t.Fatal(err)
	}
	ok := gotMajor > major || gotMajor == major && gotMinor >= minor
	Need(t, "kernel", ok, fmt.Sprintf("%s needs %d.%d, this is %d.%d", what, major, minor, gotMajor, gotMinor))
}

// Program skips the test unless the executable is in PATH, and returns where it is.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	Need(t, "program", err == nil, name+" is not installed")
	return path
}

func kernelVersion() (major, minor int, err error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return 0, 0, fmt.Errorf("uname: %w", err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return 0, 0, fmt.Errorf("parse kernel release %q: %w", release, err)
	}
	return major, minor, nil
}

// record appends one skip. The line is one write to a file opened for append: packages run side by side.
func record(path, name, why, test string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	clean := strings.NewReplacer("\t", " ", "\n", " ").Replace
	_, err = fmt.Fprintf(f, "%s\t%s\t%s\t%s\n", clean(name), clean(why), testedPackage(), clean(test))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// testedPackage is the import path of the package under test; the linker puts it into every test binary.
func testedPackage() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return strings.TrimSuffix(info.Path, ".test")
}

// File skips the test unless a file of this machine exists; how says what installs it.
func File(t testing.TB, path, how string) {
	t.Helper()
	_, err := os.Stat(path)
	Need(t, "file", err == nil, path+" is missing: "+how)
}

// NotSlow skips the test on an emulated machine, for which it would take too long.
func NotSlow(t testing.TB, why string) {
	t.Helper()
	Need(t, "slow", Slow(1) == 1, why)
}
