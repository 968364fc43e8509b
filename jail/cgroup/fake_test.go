package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The trees below are directories with the files that the kernel would have put there: they show where is written what,
// on hosts that this machine is not. What the kernel does with it, the tests with root show.

var (
	coreFiles = map[string]string{"cgroup.procs": "", "cgroup.controllers": "cpu io memory pids\n", "cgroup.subtree_control": "", "cgroup.type": "domain\n",
		"cgroup.events": "populated 0\nfrozen 0\n", "cgroup.kill": "", "cgroup.freeze": "0\n", "cpu.stat": "usage_usec 1500\n"}
	v2Files = map[string]string{"memory.max": "max\n", "memory.swap.max": "max\n", "memory.oom.group": "0\n", "memory.peak": "4096\n", "memory.current": "1024\n",
		"memory.events": "low 0\noom 3\noom_kill 2\n", "pids.max": "max\n", "pids.peak": "7\n", "pids.events": "max 5\n", "cpu.max": "max 100000\n"}
	v1Files = map[string]map[string]string{
		"memory": {"memory.limit_in_bytes": "", "memory.max_usage_in_bytes": "8192\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory.swappiness": "60\n", "tasks": ""},
		"pids":   {"pids.max": "max\n", "pids.events": "max 4\n", "tasks": ""},
		"cpu":    {"cpu.cfs_period_us": "100000\n", "cpu.cfs_quota_us": "-1\n", "tasks": ""},
	}
)

func fill(t *testing.T, dir string, sets ...map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		for name, text := range set {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func want(t *testing.T, path, text string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != text {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), got, err, text)
	}
}

// pureV2 is the tree of an agent in the group /agent of a pure v2 host, with what mkdir makes.
func pureV2(t *testing.T, made ...map[string]string) (o own, mkdir func(string) error) {
	top := t.TempDir()
	fill(t, filepath.Join(top, "agent"), coreFiles)
	o, err := findOwn("0::/agent\n", "30 1 0:5 / "+top+" rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n")
	if err != nil {
		t.Fatal(err)
	}
	return o, func(dir string) error {
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return err
		}
		fill(t, dir, made...)
		return nil
	}
}

func TestPureV2(t *testing.T) {
	o, mkdir := pureV2(t, coreFiles, v2Files)
	p, err := openParent(o, "tb-1a2b", mkdir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Support(); s.Version != "v2" || len(s.Missing()) > 0 {
		t.Errorf("support %+v", s)
	}
	want(t, filepath.Join(o.Unified, "cgroup.subtree_control"), "+memory +pids +cpu")
	want(t, filepath.Join(o.Unified, "tb-1a2b", "cgroup.subtree_control"), "+memory +pids +cpu")
	g, err := p.Create("job")
	if err != nil {
		t.Fatal(err)
	}
	if g != (Group{Unified: filepath.Join(o.Unified, "tb-1a2b", "job")}) {
		t.Errorf("group %+v", g)
	}
	if err := g.SetLimits(Limits{MemoryBytes: 1 << 30, Pids: 100, CPUs: 0.5}); err != nil {
		t.Fatal(err)
	}
	// The kernel takes a write as a whole value; in a plain file it covers the start of the old one.
	for name, text := range map[string]string{"memory.max": "1077936128", "memory.swap.max": "0ax\n", "memory.oom.group": "1\n", "pids.max": "108\n", "cpu.max": "50000 100000"} {
		want(t, filepath.Join(g.Unified, name), text)
	}
	u, err := g.Usage()
	if err != nil || u != (Usage{CPU: 1500 * time.Microsecond, MemoryPeakBytes: 4096, PidsPeak: 7, OOMKills: 2, PidsRefused: 5}) {
		t.Errorf("usage %+v, %v", u, err)
	}
	if leave, err := g.EnterV1(); err != nil || leave() != nil {
		t.Errorf("EnterV1 on v2: %v", err)
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	want(t, filepath.Join(g.Unified, "cgroup.kill"), "1")
}

func TestUsageOnOlderV2Kernels(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, coreFiles, v2Files)
	g := Group{Unified: dir}
	for _, name := range []string{"memory.peak", "pids.peak"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, dir, map[string]string{"memory.max": "123456\n"})
	if u, err := g.Usage(); err != nil || u.MemoryPeakBytes != 123456 || u.PidsPeak != 0 {
		t.Errorf("after an OOM kill: %+v, %v", u, err)
	}
	fill(t, dir, map[string]string{"memory.events": "oom_kill 0\n"})
	if u, err := g.Usage(); err != nil || u.MemoryPeakBytes != 1024 {
		t.Errorf("without one: %+v, %v", u, err)
	}
}

func TestV2ControllerNotDelegated(t *testing.T) {
	onlyPids := map[string]string{"cgroup.controllers": "pids\n"}
	o, mkdir := pureV2(t, coreFiles, onlyPids, map[string]string{"pids.max": "max\n", "pids.events": "max 0\n"})
	fill(t, o.Unified, onlyPids)
	p, err := openParent(o, "tb-1", mkdir, nil)
	if err != nil {
		t.Fatal(err)
	}
	missing := p.Support().Missing()
	if len(missing) != 2 || !strings.HasPrefix(missing[0], "cpu: not delegated") || !strings.HasPrefix(missing[1], "memory: not delegated") {
		t.Errorf("missing %q", missing)
	}
	want(t, filepath.Join(o.Unified, "cgroup.subtree_control"), "+pids")
	g, err := p.Create("job")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SetLimits(Limits{Pids: 1}); err != nil {
		t.Error(err)
	}
	for _, l := range []Limits{{MemoryBytes: 1 << 20}, {CPUs: 1}} {
		if err := g.SetLimits(l); !errors.Is(err, ErrMissing) {
			t.Errorf("%+v: %v, want ErrMissing", l, err)
		}
	}
	if u, err := g.Usage(); err != nil || u.CPU == 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
}

func TestOtherProcessesAreInTheWay(t *testing.T) {
	for name, tt := range map[string]struct{ procs, want string }{
		"a stranger":            {pidText() + "\n1\n", "1 ("},
		"outside the namespace": {"0\n", "0 (?)"},
	} {
		t.Run(name, func(t *testing.T) {
			o, mkdir := pureV2(t, coreFiles, v2Files)
			fill(t, o.Unified, map[string]string{"cgroup.procs": tt.procs})
			_, err := openParent(o, "tb-1", mkdir, nil)
			if err == nil || !strings.Contains(err.Error(), "other processes share the agent's cgroup: "+tt.want) {
				t.Errorf("error %v", err)
			}
			want(t, filepath.Join(o.Unified, "cgroup.subtree_control"), "")
		})
	}
}

func TestHybrid(t *testing.T) {
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	mountinfo := "30 1 0:5 / " + at("unified") + " rw - cgroup2 cgroup2 rw\n" +
		"31 1 0:6 / " + at("memory") + " rw - cgroup cgroup rw,memory\n" +
		"32 1 0:7 /pod " + at("pids") + " rw - cgroup cgroup rw,pids\n" +
		"33 1 0:8 / " + at("cpu") + " rw - cgroup cgroup rw,cpu,cpuacct\n"
	cgroups := "5:memory:/deep/er\n4:pids:/pod/x\n3:cpu,cpuacct:/\n1:name=systemd:/y\n0::/\n"
	own := map[string]string{"memory": "deep/er", "pids": "x", "cpu": ""}
	fill(t, at("unified"), coreFiles)
	for name, sub := range own {
		fill(t, filepath.Join(at(name), sub), map[string]string{"tasks": ""})
	}
	o, err := findOwn(cgroups, mountinfo)
	if err != nil {
		t.Fatal(err)
	}
	p, err := openParent(o, "tb-1", func(dir string) error {
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, dir)
		hierarchy, _, _ := strings.Cut(rel, "/")
		fill(t, dir, v1Files[hierarchy])
		if hierarchy == "unified" {
			fill(t, dir, coreFiles)
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Support(); s.Version != "hybrid" || len(s.Missing()) > 0 {
		t.Errorf("support %+v", s)
	}
	g, err := p.Create("j")
	if err != nil {
		t.Fatal(err)
	}
	if g != (Group{Unified: at("unified/tb-1/j"), Memory: at("memory/deep/er/tb-1/j"), Pids: at("pids/x/tb-1/j"), CPU: at("cpu/tb-1/j")}) {
		t.Errorf("group %+v", g)
	}
	if err := g.SetLimits(Limits{MemoryBytes: 1 << 20, Pids: 1, CPUs: 2}); err != nil {
		t.Fatal(err)
	}
	want(t, g.Memory+"/memory.limit_in_bytes", "5242880")
	want(t, g.Memory+"/memory.swappiness", "00\n")
	want(t, g.Pids+"/pids.max", "9ax\n")
	want(t, g.CPU+"/cpu.cfs_quota_us", "200000")
	if u, err := g.Usage(); err != nil || u != (Usage{CPU: 1500 * time.Microsecond, MemoryPeakBytes: 8192, OOMKills: 1, PidsRefused: 4}) {
		t.Errorf("usage %+v, %v", u, err)
	}
	leave, err := g.EnterV1()
	if err != nil {
		t.Fatal(err)
	}
	want(t, g.Memory+"/tasks", "0")
	want(t, at("memory/deep/er/tasks"), "")
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	want(t, at("memory/deep/er/tasks"), "0")
	want(t, at("pids/x/tasks"), "0")
	want(t, at("cpu/tasks"), "0")
}

func TestReadOnlyTrees(t *testing.T) {
	refuse := func(where string) func(string) error {
		return func(dir string) error {
			if strings.Contains(dir, where) {
				return unix.EROFS
			}
			return unix.Mkdir(dir, 0o755)
		}
	}
	top := t.TempDir()
	for _, name := range []string{"unified", "memory", "pids", "cpu"} {
		fill(t, filepath.Join(top, name), nil)
	}
	o := func() own {
		return own{missing: map[string]string{}, Group: Group{Unified: top + "/unified", Memory: top + "/memory", Pids: top + "/pids", CPU: top + "/cpu"}}
	}
	if _, err := openParent(o(), "tb-1", refuse("/unified/"), nil); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("v2 read-only: %v", err)
	}
	p, err := openParent(o(), "tb-1", refuse("/memory/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if missing := p.Support().Missing(); !slices.ContainsFunc(missing, func(s string) bool { return strings.HasPrefix(s, "memory: ") && strings.Contains(s, "read-only") }) {
		t.Errorf("missing %q", missing)
	}
	g, err := p.Create("j")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SetLimits(Limits{MemoryBytes: 1}); !errors.Is(err, ErrMissing) {
		t.Errorf("memory limit without memory: %v", err)
	}
}

func TestFindOwn(t *testing.T) {
	const v2 = "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	tests := map[string]struct {
		cgroups, mounts string
		unified         string
		missing         string // substring of a reason
		err             string
	}{
		"v1 only":                  {"4:memory:/\n", "31 1 0:6 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "", "", "no cgroup v2 hierarchy"},
		"v2 not mounted":           {"0::/x\n", "31 1 0:6 / /proc rw - proc proc rw\n", "", "", "not mounted"},
		"container, bind mount":    {"0::/pod/c\n", "30 1 0:5 /pod/c /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup", "", ""},
		"own namespace, host tree": {"0::/\n", "30 1 0:5 /../.. /host/cgroup rw - cgroup2 cgroup2 rw\n", "", "", "does not show the own group"},
		"writable one preferred":   {"0::/\n", "30 1 0:5 / /ro ro - cgroup2 cgroup2 rw\n31 1 0:5 / /rw rw - cgroup2 cgroup2 rw\n", "/rw", "", ""},
		"read-only if need be":     {"0::/\n", "30 1 0:5 / /ro ro - cgroup2 cgroup2 rw\n", "/ro", "", ""},
		"escaped path":             {"0::/\n", "30 1 0:5 / /a\\040b rw - cgroup2 cgroup2 rw\n", "/a b", "", ""},
		"optional fields":          {"0::/\n", "30 1 0:5 / /s rw shared:5 master:1 - cgroup2 cgroup2 rw\n", "/s", "", ""},
		"v1 memory not mounted":    {"4:memory:/\n3:pids:/\n0::/\n", v2 + "31 1 0:6 / /p rw - cgroup cgroup rw,pids\n", "/sys/fs/cgroup", "not mounted (v1)", ""},
		"some on v1, cpu nowhere":  {"3:pids:/\n0::/\n", v2 + "31 1 0:6 / /p rw - cgroup cgroup rw,pids\n", "/sys/fs/cgroup", "no v1 hierarchy has it", ""},
		"damaged cgroup file":      {"garbage\n", v2, "", "", "parse /proc/self/cgroup"},
		"damaged mountinfo":        {"0::/\n", "30 1\n", "", "", "parse mountinfo"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := findOwn(tt.cgroups, tt.mounts)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || o.Unified != tt.unified {
				t.Errorf("own group at %q, %v; want %q", o.Unified, err, tt.unified)
			}
			var reasons []string
			for _, why := range o.missing {
				reasons = append(reasons, why)
			}
			if all := strings.Join(reasons, "\n"); !strings.Contains(all, tt.missing) || tt.missing == "" && all != "" {
				t.Errorf("missing %q, want %q", all, tt.missing)
			}
		})
	}
}

func TestBadNames(t *testing.T) {
	o, mkdir := pureV2(t, coreFiles, v2Files)
	p, err := openParent(o, "tb-1", mkdir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../x", ".hidden", "a\nb", strings.Repeat("x", 200)} {
		if _, err := p.Create(name); err == nil {
			t.Errorf("%q accepted", name)
		}
		if _, err := p.Open(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %q: %v", name, err)
		}
		if _, err := openParent(o, name, mkdir, nil); err == nil {
			t.Errorf("parent %q accepted", name)
		}
	}
}
