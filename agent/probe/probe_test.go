package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// asNobody makes the test binary print a report, and nothing else: the report of a process without privileges.
const asNobody = "TOLBOOTH_PROBE_REPORT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asNobody); dir != "" {
		if err := json.NewEncoder(os.Stdout).Encode(Run(context.Background(), Options{StateDir: dir})); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	hosttest.Main(m)
}

// With every privilege the report depends on the machine; what must hold is that each missing layer says why and what
// to do, that it is quick, and (hosttest.Main) that nothing is left.
func TestReportOfThisMachine(t *testing.T) {
	hosttest.Filters(t)
	state := filepath.Join(t.TempDir(), "not", "made", "yet")
	start := time.Now()
	r := Run(t.Context(), Options{StateDir: state})
	took := time.Since(start)
	check(t, r)
	// A fifth of a second of work when the machine is idle; a probe that waits for something to time out is seen.
	if took > hosttest.Slow(8*time.Second) {
		t.Errorf("the probe took %v", took)
	}
	t.Logf("the probe took %v; missing: %q", took, r.Modes["syd"].Without)
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		if left, _ := filepath.Glob(fmt.Sprintf("%stb-probe-%d*", pattern, os.Getpid())); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	if _, err := os.Stat(state); err == nil {
		t.Errorf("the probe made the state directory")
	}
}

func check(t *testing.T, r Report) {
	t.Helper()
	seen := map[string]bool{}
	for _, l := range r.Layers {
		if seen[l.Name] {
			t.Errorf("layer %s is there twice", l.Name)
		}
		seen[l.Name] = true
		if l.OK && (l.Why != "" || l.Fix != "") {
			t.Errorf("layer %s is ok, with why %q, fix %q", l.Name, l.Why, l.Fix)
		}
		if !l.OK && (l.Why == "" || l.Fix == "") {
			t.Errorf("layer %s is missing, with why %q, fix %q", l.Name, l.Why, l.Fix)
		}
	}
	for mode, names := range needs {
		for _, name := range names {
			if !seen[name] {
				t.Errorf("mode %s needs %s, which no probe looks for", mode, name)
			}
		}
	}
	for _, l := range r.Languages {
		if l.Program != "" && l.Version == "" {
			t.Logf("%s did not say its version", l.Program)
		}
	}
}

// A process without privileges gets a report, not a crash, and it names what is missing.
func TestReportWithoutPrivileges(t *testing.T) {
	hosttest.Root(t)
	dir, err := os.MkdirTemp("/tmp", "tb-probe-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self := copySelf(t, dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{asNobody + "=" + dir}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var r Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	check(t, r)
	for _, name := range []string{"capabilities", "pidns", "mount-api", "overlay", "cgroup", "veth", "ebpf-egress"} {
		if l, ok := r.Layer(name); !ok || l.OK {
			t.Errorf("layer %s as nobody: %+v", name, l)
		}
	}
	for _, name := range []string{"seccomp", "openat2", "pidfd"} {
		if l, ok := r.Layer(name); !ok || !l.OK {
			t.Errorf("layer %s as nobody: %+v", name, l)
		}
	}
	if r.Modes["syd"].Available || r.Modes["minimal"].Available {
		t.Errorf("modes as nobody: %+v", r.Modes)
	}
	if l, _ := r.Layer("capabilities"); !strings.Contains(l.Why, "SYS_PTRACE") || !strings.Contains(l.Fix, "SYS_PTRACE") {
		t.Errorf("the missing capability is not named: %+v", l)
	}
}

// copySelf puts the test binary where a process without privileges can execute it.
func copySelf(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "probe.test")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestModes(t *testing.T) {
	report := func(except ...string) *Report {
		r := &Report{}
		names := []string{"landlock"}
		for _, needed := range needs {
			for _, name := range needed {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		layer := func(name string) Layer { return Layer{Name: name, OK: !slices.Contains(except, name)} }
		for _, name := range names {
			r.add(layer(name))
		}
		r.Layers = append(r.Layers, Explainers{notify: layer("unotify"), ptrace: layer("ptrace")}.layers()...)
		return r
	}
	for _, tc := range []struct {
		missing      []string
		syd, minimal bool
	}{
		{nil, true, true},
		{[]string{"landlock"}, true, true},
		{[]string{"ptrace"}, true, true},
		{[]string{"unotify"}, true, true},
		{[]string{"ptrace", "unotify"}, false, true},
		{[]string{"seccomp"}, false, true},
		{[]string{"ebpf-egress"}, false, true},
		{[]string{"pivot-root"}, false, true},
		{[]string{"cgroup"}, false, false},
		{[]string{"overlay"}, false, false},
	} {
		m := modes(report(tc.missing...).Layers)
		if m["syd"].Available != tc.syd || m["minimal"].Available != tc.minimal {
			t.Errorf("without %v: %+v", tc.missing, m)
		}
	}
	for _, name := range []string{"landlock", "ptrace", "unotify"} {
		if m := modes(report(name).Layers); !slices.Equal(m["syd"].Without, []string{name}) {
			t.Errorf("a missing bonus is not told: %+v", m["syd"])
		}
	}
	neither := []string{"unotify", "ptrace"}
	if m := modes(report(neither...).Layers); !slices.Equal(m["syd"].Missing, neither) {
		t.Errorf("without any explainer: %+v", m["syd"])
	}
}

// TestChooseExplainer: the better one that works, unless the operator names one; that one is never replaced by the other.
func TestChooseExplainer(t *testing.T) {
	for _, tc := range []struct {
		notify, ptrace bool
		wanted, chosen string
	}{
		{true, true, "auto", "notify"}, {true, true, "notify", "notify"}, {true, true, "ptrace", "ptrace"},
		{true, false, "auto", "notify"}, {true, false, "notify", "notify"}, {true, false, "ptrace", ""},
		{false, true, "auto", "ptrace"}, {false, true, "notify", ""}, {false, true, "ptrace", "ptrace"},
		{false, false, "auto", ""}, {false, false, "notify", ""}, {false, false, "ptrace", ""},
	} {
		e := Explainers{notify: Layer{Name: "unotify", OK: tc.notify, Why: "no listener"}, ptrace: Layer{Name: "ptrace", OK: tc.ptrace, Why: "no tracer"}}
		chosen, err := e.Choose(tc.wanted)
		if chosen != tc.chosen || (err == nil) != (chosen != "") {
			t.Errorf("%+v: %q, %v", tc, chosen, err)
		}
		if err != nil && tc.wanted != "notify" && !strings.Contains(err.Error(), "no tracer") {
			t.Errorf("%+v: the error does not say why: %v", tc, err)
		}
	}
}

func TestExistingParent(t *testing.T) {
	dir := t.TempDir()
	if got, err := existing(filepath.Join(dir, "a", "b")); err != nil || got != dir {
		t.Errorf("existing = %q, %v", got, err)
	}
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := existing(file); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func TestVersionsAreBoundedInTimeAndLength(t *testing.T) {
	dir := t.TempDir()
	slow, long := filepath.Join(dir, "slow"), filepath.Join(dir, "long")
	for path, text := range map[string]string{slow: "#!/bin/bash\nsleep 9\n", long: "#!/bin/bash\nhead -c 100000 /dev/zero | tr '\\0' x\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	if v := versionOf(t.Context(), slow, nil); v != "" {
		t.Errorf("version %q", v)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	if v := versionOf(t.Context(), long, nil); len(v) > 256 {
		t.Errorf("%d bytes of version", len(v))
	}
}
