package archtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const maxLines = 500

func TestDependencyLaw(t *testing.T) {
	for _, p := range list(t, "./...") {
		for _, f := range p.findings() {
			t.Error(f)
		}
	}
}

func TestJailBinaryLinksLittle(t *testing.T) {
	jailPath := module + "/jail/cmd/tolbooth-jail"
	standard := map[string]bool{}
	var jail *pkg
	for _, p := range list(t, "-deps", jailPath) {
		standard[p.ImportPath] = p.Standard
		if p.ImportPath == jailPath {
			jail = &p
		}
	}
	if jail == nil {
		t.Fatalf("%s is not among its own dependencies", jailPath)
	}
	for _, f := range jailFindings(*jail, standard) {
		t.Error(f)
	}
}

func TestPrometheusInOneFile(t *testing.T) {
	walk(t, func(path string, text []byte) {
		if strings.HasPrefix(path, "agent/") && !strings.HasSuffix(path, "_test.go") && path != "agent/metrics.go" &&
			bytes.Contains(text, []byte(`"github.com/prometheus/`)) {
			t.Errorf("%s imports prometheus\n\twhy: the inventory of metrics is one file, agent/metrics.go, that a reader can compare with the reference", path)
		}
	})
}

func TestFilesAreShort(t *testing.T) {
	walk(t, func(path string, text []byte) {
		if n := bytes.Count(text, []byte("\n")); n > maxLines && !generated(text) {
			t.Errorf("%s has %d lines, more than %d\n\twhy: a file holds one idea; which second idea lives in this one?", path, n, maxLines)
		}
	})
}

func TestNoCatchAllDirectories(t *testing.T) {
	entries, err := os.ReadDir(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && slices.Contains([]string{"cmd", "pkg", "util", "utils", "common", "lib", "helpers"}, e.Name()) {
			t.Errorf("top-level directory %s\n\twhy: a directory is named for what is in it; a binary's main lives in its room", e.Name())
		}
	}
}

// list runs `go list -json`, with cgo on so that its files are told apart.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Name,Doc,Standard,GoFiles,CgoFiles,Imports,Deps"}, args...)...)
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// walk calls fn with each Go file of the checkout, by its path from the root.
func walk(t *testing.T, fn func(path string, text []byte)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != top && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "build" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		fn(filepath.ToSlash(rel), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func root(t *testing.T) string {
	t.Helper()
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(top, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return top
}

var generatedRule = regexp.MustCompile(`^// Code generated .* DO NOT EDIT\.$`)

// generated looks for the mark that `go help generate` defines, before the package clause.
func generated(text []byte) bool {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if generatedRule.MatchString(lines.Text()) {
			return true
		}
		if strings.HasPrefix(lines.Text(), "package ") {
			return false
		}
	}
	return false
}
