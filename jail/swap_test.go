package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// covered looks at what hides parts of /proc, and tries to write what a link of the tree leads to.
const covered = `
import os, stat
null = os.makedev(1, 3)
for name in ("kcore", "kallsyms", "keys", "kmsg", "slabinfo"):
    try: st = os.stat("/proc/" + name)
    except OSError: continue
    if st.st_rdev != null: print("bare", name, oct(st.st_mode), st.st_rdev)
for path in ("/proc/sys/kernel/core_pattern", "/dev/null", "/dev/pts/0", "/dev/console"):
    try: open(path, "w").write("|/of-the-jail")
    except OSError: pass
print("looked")
`

// refusals are how a start ends that found something else where a mount belongs, or nothing.
var refusals = []string{"a symlink lies on the way", "symbolic links", "not the null device", "not a directory", "no such file"}

// TestSwappedWhileBuilt is B4 (CVE-2025-31133, -52565, -52881): somebody exchanges what the tree has where mounts belong, while
// init attaches them. Either the start fails, or the mounts are where they belong and cover what they should. The kernel's
// settings stay as they are in any case.
func TestSwappedWhileBuilt(t *testing.T) {
	const pattern = "/proc/sys/kernel/core_pattern"
	before, err := os.ReadFile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	for _, mode := range modes {
		for _, c := range []struct{ path, link string }{
			{"dev", "/proc/sys/kernel"}, {"dev", ""}, {"proc", "/etc"}, {"tmp", "/proc/sys/kernel"},
		} {
			t.Run(fmt.Sprintf("%s/%s%s", mode, c.path, c.link), func(t *testing.T) {
				started := 0
				for round := range 16 {
					if swappedRun(t, s, mode, c.path, c.link, time.Duration(round)*hosttest.Slow(200*time.Microsecond)) {
						started++
					}
				}
				t.Logf("%d of 16 started", started)
			})
		}
	}
	if after, err := os.ReadFile(pattern); err != nil || string(after) != string(before) {
		t.Errorf("%s is %q, was %q; %v", pattern, after, before, err)
	}
}

// swappedRun runs one job. At a moment of the building of its root, path of its tree and something else are exchanged: a link,
// or, without one, a directory with links in it. It tells whether the program ran.
func swappedRun(t *testing.T, s *site, mode Mode, path, link string, after time.Duration) bool {
	t.Helper()
	j := s.python(t, mode, covered)
	defer j.close()
	other := fmt.Sprintf("/proc/self/fd/%d/other", j.root.Mount.Fd())
	err := linkDirectory(other)
	if link != "" {
		err = os.Symlink(link, other+"-link")
		other += "-link"
	}
	if err != nil {
		t.Fatal(err)
	}
	// Without a stdin of its own, launch opens the jail's /dev/null, and would find out for init.
	stdin, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer end.Close()
	j.spec.Stdin = stdin
	prepared := j.prepare()
	swapped := make(chan error, 1)
	go func() {
		time.Sleep(after)
		dir := int(j.root.Mount.Fd())
		swapped <- unix.Renameat2(dir, path, dir, filepath.Base(other), unix.RENAME_EXCHANGE)
	}()
	err = prepared.Build(t.Context(), j.root)
	if swapErr := <-swapped; swapErr != nil {
		t.Fatalf("exchange %s: %v", path, swapErr)
	}
	var p *Process
	if err == nil {
		p, err = prepared.Start(t.Context(), j.spec)
	}
	if err != nil {
		if !slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(err.Error(), r) }) {
			t.Errorf("the start failed by %v", err)
		}
		return false
	}
	j.wait(p)
	if o := j.read(); !strings.HasSuffix(o.stdout, "looked\n") || strings.Contains(o.stdout, "bare") {
		t.Errorf("%+v\n%s%s", o.Exit, o.stdout, o.stderr)
	}
	return true
}

// linkDirectory is a directory that has links where /dev and /proc have files, and directories where they have those.
func linkDirectory(dir string) error {
	for _, name := range []string{"", "/pts", "/shm", "/sys"} {
		if err := os.Mkdir(dir+name, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"null", "console", "kcore", "sysrq-trigger"} {
		if err := os.Symlink("/proc/sys/kernel/core_pattern", dir+"/"+name); err != nil {
			return err
		}
	}
	return nil
}
