package real

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// openFiles is the limit of open files of suites, inside and outside.
const openFiles = 4096

// outside runs tests of the suite under the conditions of a jail, without one: uid 1000 without privileges and no_new_privs, a
// network namespace with nothing but lo, the jail's variables, a directory of its own.
func (s suite) outside(t *testing.T, tests []string) map[string]outcome {
	t.Helper()
	for _, program := range []string{"setpriv", "prlimit"} {
		hosttest.Program(t, program)
	}
	dir := s.unpacked(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	files := strconv.Itoa(openFiles)
	argv := append([]string{
		"--nofile=" + files + ":" + files, "--core=0:0",
		"setpriv", "--no-new-privs", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--bounding-set", "-all", "--",
	}, s.command(tests)...)
	cmd := exec.CommandContext(ctx, "prlimit", argv...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TERM=dumb", "SHELL=/bin/bash",
		"HOME=" + dir, "TMPDIR=" + filepath.Join(dir, "tmp"),
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	start := time.Now()
	if err := harness.InNetns(harness.NewNetns(t), cmd.Run); err != nil {
		t.Fatalf("run the suite outside: %v\n%s%s", err, errs.String(), out.String())
	}
	found := s.parse(out.String())
	report(t, "outside", found, start)
	return found
}

// unpacked is a directory of uid 1000 with the suite's files.
func (s suite) unpacked(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tb-real-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.files {
		data := []byte(f.Content)
		if f.Encoding == "base64" {
			if data, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, f.Path), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(path, 1000, 1000); err != nil {
			return fmt.Errorf("give the suite's files to uid 1000: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
