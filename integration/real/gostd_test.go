package real

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

//go:embed gostd.sh
var runGoTests string

// ofGo are the tests that pass outside and not inside, on purpose.
var ofGo = []difference{
	{"os/exec/TestPidFD*", "", noUserNS},
	{"os/TestPidFD*", "", noUserNS},
	{"syscall/TestCloneNEWUSERAndRemap/*", "", noUserNS},
	{"syscall/TestCloneNEWUSERAndRemap", "", noUserNS},
	{"syscall/TestAmbientCapsUserns", "", noUserNS},
	{"syscall/TestEmptyCredGroupsDisableSetgroups", "", noUserNS},
	{"syscall/TestPidFDClone3", "", "clone3 answers ENOSYS, since its flags lie in memory where a filter cannot see them; everybody falls back to clone"},
	{"syscall/TestPidFDWithUserNS", "", noUserNS},
	{"syscall/TestUnshareUidGidMapping", "", noUserNS},
	{"net/TestMultiPathTCP", "", "MPTCP is refused like every protocol but TCP and UDP; Go falls back to TCP"},
}

const noUserNS = "a job makes no user namespace, unless it may and asks for the extra userns: within one it would reach much more of the kernel"

// TestGo runs the test binaries of os, os/exec, os/signal, syscall and net.
func TestGo(t *testing.T) {
	hosttest.NotSlow(t, "compiling five packages takes too long under emulation")
	hosttest.Program(t, "go")
	s := suite{
		files: []api.File{
			{Path: "gostd.sh", Content: runGoTests},
			{Path: "go-tests.tar.gz", Content: base64.StdEncoding.EncodeToString(goTests(t)), Encoding: "base64"},
		},
		command:   func(tests []string) []string { return append([]string{"/bin/sh", "gostd.sh"}, goPattern(tests)...) },
		parse:     parseGo,
		atLeast:   1000,
		explained: ofGo,
	}
	s.compare(t, harness.Start(t, harness.Options{}), everything)
}

// goTests is an archive of the packages' sources and test data, each with its compiled tests.
func goTests(t *testing.T) []byte {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(out))
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	w := tar.NewWriter(zipped)
	for _, pkg := range []string{"os", "os/exec", "os/signal", "syscall", "net"} {
		name := strings.ReplaceAll(pkg, "/", "_") + ".test"
		binary := filepath.Join(t.TempDir(), name)
		if msg, err := exec.Command("go", "test", "-c", "-o", binary, pkg).CombinedOutput(); err != nil {
			t.Fatalf("compile the tests of %s: %v\n%s", pkg, err, msg)
		}
		dir := "src/" + pkg + "/"
		addFiles(t, w, dir, filepath.Join(root, "src", pkg), func(path string) bool {
			return !strings.Contains(path, "/") || strings.HasPrefix(path, "testdata/") // not the packages below
		})
		addFiles(t, w, dir, filepath.Dir(binary), func(path string) bool { return path == name })
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// addFiles adds the regular files below dir that are wanted.
func addFiles(t *testing.T, w *tar.Writer, prefix, dir string, wanted func(path string) bool) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !wanted(path) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: prefix + path, Mode: int64(info.Mode().Perm()), Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goPattern is an expression for the tests, whole tests where only a part of one is meant.
func goPattern(tests []string) []string {
	var names []string
	for _, test := range tests {
		if i := strings.Index(test, "Test"); i >= 0 {
			name, _, _ := strings.Cut(test[i:], "/")
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"^(" + strings.Join(names, "|") + ")$"}
}

var ended = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)

// parseGo reads the output of gostd.sh. A package that fails without a failed test is an outcome of its own.
func parseGo(stdout string) map[string]outcome {
	tests := map[string]outcome{}
	pkg, failed := "", false
	for line := range strings.Lines(stdout) {
		line = strings.TrimSuffix(line, "\n")
		if name, found := strings.CutPrefix(line, "=== PACKAGE "); found {
			pkg, failed = name, false
		} else if status, found := strings.CutPrefix(line, "=== STATUS "); found {
			if status != "0" && !failed {
				tests[pkg] = outcome{"failed", "status " + status}
			}
		} else if m := ended.FindStringSubmatch(line); m != nil {
			status := map[string]string{"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}[m[1]]
			failed = failed || status == "failed"
			tests[pkg+"/"+m[2]] = outcome{status: status}
		}
	}
	return tests
}
