package launch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLookUp(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"one/prog": 0o755, "two/prog": 0o755, "two/only": 0o755, "one/data": 0o644, "two/data": 0o755, "one/text": 0o644} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(at("one/only"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + at("none") + ":" + at("one") + ":" + at("two")
	for _, c := range []struct {
		name  string
		env   []string
		want  string
		errno unix.Errno
		words string
	}{
		{"prog", []string{path}, at("one/prog"), 0, ""},
		{"data", []string{path}, at("two/data"), 0, ""}, // passed over where it may not be executed
		{"only", []string{path}, at("two/only"), 0, ""}, // a directory is passed over
		{"text", []string{path}, "", unix.EACCES, "0644"},
		{"nothing", []string{path}, "", unix.ENOENT, "looked in PATH=" + at("none")},
		{"prog", []string{"PATH=" + at("two"), path}, at("two/prog"), 0, ""}, // the first PATH counts
		{at("one/prog"), nil, at("one/prog"), 0, ""},
		{at("one/nothing"), []string{path}, "", unix.ENOENT, "one/nothing"},
		{"sh", nil, "/usr/bin/sh", 0, ""},
	} {
		got, err := lookUp(c.name, c.env)
		if c.errno != 0 {
			if !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s: %q, %v", c.name, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// TestRules: no rule allows a right that its ABI does not have, which the kernel would refuse.
func TestRules(t *testing.T) {
	for abi := 1; abi <= newestABI; abi++ {
		all := handledAccess(abi)
		for _, r := range rules(abi, []string{"/workspace"}, []string{"/usr"}) {
			if r.access&^all != 0 {
				t.Errorf("ABI %d: rule for %s allows %#x beyond %#x", abi, r.dir, r.access, all)
			}
			if r.access&unix.LANDLOCK_ACCESS_FS_EXECUTE != 0 && r.dir != "/usr" {
				t.Errorf("ABI %d: below %s programs may be executed", abi, r.dir)
			}
			if r.dir == "/" && r.access&writeAccess != 0 {
				t.Errorf("ABI %d: / may be written", abi)
			}
		}
	}
}

func TestBaseDirs(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"usr/bin", "var/tmp", "var/lib", "work", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("work", filepath.Join(root, "bin")); err != nil { // would lead to what the job can change
		t.Fatal(err)
	}
	at := func(names ...string) (list []string) {
		for _, name := range names {
			list = append(list, filepath.Join(root, name))
		}
		return list
	}
	got, err := baseDirs(root, at("work", "var/tmp"))
	if want := at("etc", "usr", "var/lib"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
}
