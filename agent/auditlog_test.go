package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAuditRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	a, err := openAudit(path, 30, 2, func(id string, err error) { t.Error(id, err) })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		a.Append("id", fmt.Appendf(nil, "line number %d\n", i)) // two a file
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "8 9", ".1": "6 7", ".2": "4 5"} {
		text := strings.TrimSpace(strings.ReplaceAll(readText(t, path+name), "line number ", ""))
		if got := strings.Join(strings.Fields(text), " "); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	if _, err := os.Stat(path + ".3"); !os.IsNotExist(err) {
		t.Error("an older file is left: ", err)
	}
}

// TestAuditFollowsItsName: a file that somebody else moved away is followed by a new one.
func TestAuditFollowsItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	a, err := openAudit(path, 1<<20, 2, func(id string, err error) { t.Error(id, err) })
	if err != nil {
		t.Fatal(err)
	}
	a.Append("1", []byte("one\n"))
	eventually(t, "the first line", func() bool { return readText(t, path) == "one\n" })
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	a.Append("2", []byte("two\n"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if readText(t, path) != "two\n" || readText(t, path+".old") != "one\n" {
		t.Errorf("%q %q", readText(t, path), readText(t, path+".old"))
	}
}

// TestAuditEndsHalfALine: what a killed agent left of a line does not swallow the next one.
func TestAuditEndsHalfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte(`{"id":"ha`), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := openAudit(path, 1<<20, 2, func(id string, err error) { t.Error(id, err) })
	if err != nil {
		t.Fatal(err)
	}
	a.Append("1", []byte("{}\n"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := readText(t, path); got != "{\"id\":\"ha\n{}\n" {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestAuditTakesNoOtherFile(t *testing.T) {
	dir := t.TempDir()
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fifo, dir} {
		if a, err := openAudit(path, 1<<20, 2, nil); err == nil {
			t.Errorf("%s was opened: %v", path, a.Close())
		}
	}
}

// TestAuditNeverWaits: with a writer that hangs, Append drops and tells.
func TestAuditNeverWaits(t *testing.T) {
	var lost []error
	a := &auditLog{lines: make(chan auditEntry, 1), lost: func(_ string, err error) { lost = append(lost, err) }}
	a.Append("1", nil)
	a.Append("2", nil)
	a.closed = true
	a.Append("3", nil)
	if len(lost) != 2 || lost[0] != errAuditSlow || lost[1] != errAuditClosed {
		t.Error(lost)
	}
}
