package hostile

import (
	"bytes"
	"embed"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

//go:embed *.py testdata/*.c
var programs embed.FS

func TestMain(m *testing.M) { hosttest.Main(m) }

// attack is one hostile program and what must be true of its result.
type attack struct {
	id      string
	file    string
	held    int         // at least this many attempts must be reported as held
	rules   []string    // rules that the result's denials must name
	outcome api.Outcome // default ok
	limits  api.Limits
	limit   string        // result.limit.name
	within  time.Duration // the result must be there this fast (stretched on slow machines)
}

var attacks = []attack{
	{id: "A1", file: "a01_path_race.py", held: 2},
	{id: "A7", file: "testdata/a07_i386.c", held: 1},
	{id: "A10", file: "a10_io_uring.py", held: 3, rules: []string{"syscall.io_uring_setup"}},
	{id: "A11", file: "a11_userns.py", held: 11, rules: []string{"syscall.unshare"}},
	{id: "A12", file: "a12_fallbacks.py", held: 14},
	{id: "A13", file: "a13_tty.py", held: 12, rules: []string{"syscall.tiocsti", "syscall.tioclinux"}},
	{id: "A15", file: "a15_listener.py", held: 7, rules: []string{"syscall.seccomp_listener"}},
	{id: "A16", file: "a16_ptrace.py", held: 9, rules: []string{"syscall.ptrace"}},
	{id: "A17", file: "a17_memory.py", held: 17, rules: []string{"syscall.process_vm_readv", "syscall.pidfd_getfd"}},
	{id: "A18", file: "a18_signals.py", held: 22},
	{id: "A21", file: "a21_privilege.py", held: 13},
	{id: "B2", file: "b02_descriptors.py", held: 3},
	{id: "B3", file: "b03_self_exe.py", held: 11},
	{id: "B5", file: "b05_mount.py", held: 16, rules: []string{"syscall.mount", "syscall.open_tree", "syscall.fsopen"}},
	{id: "B8", file: "b08_devices.py", held: 33},
	{id: "B7", file: "b07_knobs.py", held: 29},
	{id: "B9", file: "b09_handles.py", held: 4, rules: []string{"syscall.open_by_handle_at"}},
	{id: "C", file: "c_surface.py", held: 110, rules: []string{"syscall.bpf", "syscall.keyctl", "syscall.socket_family", "syscall.socket_raw"}},
	{id: "E1", file: "e01_fork_bomb.py", outcome: api.OutcomePidsLimit, limit: "pids", within: 10 * time.Second},
	{id: "E2", file: "e02_memory.py", outcome: api.OutcomeMemoryLimit, limit: "memory", within: 10 * time.Second},
	{id: "E4", file: "e04_output.py", outcome: api.OutcomeOutputLimit, limit: "output", within: 10 * time.Second},
	{id: "E7", file: "e07_daemon.py", held: 1, within: 3 * time.Second},
	{id: "E8", file: "e08_stopped.py", held: 1, outcome: api.OutcomeWallLimit, limit: "wall", limits: api.Limits{Wall: api.Duration(2 * harness.Slow)}, within: 6 * time.Second},
	{id: "E9", file: "e09_zombies.py", held: 1},
	{id: "E16", file: "e16_deleted.py", outcome: api.OutcomeDiskLimit, limit: "disk", limits: api.Limits{Disk: 40 << 20}, within: 10 * time.Second},
	{id: "E16", file: "e16_moved.py", outcome: api.OutcomeDiskLimit, limit: "disk", limits: api.Limits{Disk: 40 << 20}, within: 30 * time.Second},
	{id: "F1", file: "f01_secrets.py", held: 2},
}

// TestAttacks runs every program in a syd jail with the default policy and asks the oracle after each.
func TestAttacks(t *testing.T) {
	a := harness.Start(t, harness.Options{Env: map[string]string{"AGENT_SECRET": "agent-secret-planted"}})
	o := newOracle(t, a)
	for _, at := range attacks {
		t.Run(at.id+"_"+strings.TrimSuffix(path.Base(at.file), ".py"), func(t *testing.T) {
			start := time.Now()
			res := a.Run(request(t, at))
			took := time.Since(start)
			check(t, at, res, took)
			o.check(t, res)
		})
	}
}

// request is the job of one program: Python source with the shared prelude, or C compiled on the host, since a compiler
// in the jail is not what is tested here.
func request(t *testing.T, at attack) api.JobRequest {
	t.Helper()
	src, err := programs.ReadFile(at.file)
	if err != nil {
		t.Fatal(err)
	}
	req := api.JobRequest{Limits: at.limits, Jail: "syd", MinGrade: "syd"}
	if strings.HasSuffix(at.file, ".c") {
		req.Command = []string{"./attack"}
		req.Files = []api.File{{Path: "attack", Content: compile(t, src), Encoding: "base64", Mode: "0755"}}
		return req
	}
	prelude, err := programs.ReadFile("prelude.py")
	if err != nil {
		t.Fatal(err)
	}
	req.Command = []string{"python3", "-u", "attack.py"}
	req.Files = []api.File{{Path: "attack.py", Content: string(prelude) + "\n" + string(src)}}
	return req
}

func check(t *testing.T, at attack, res *api.Result, took time.Duration) {
	t.Helper()
	want := at.outcome
	if want == "" {
		want = api.OutcomeOK
	}
	if res.Outcome != want {
		t.Errorf("outcome %s (%s), want %s\n%s\n%s", res.Outcome, res.Detail, want, tail(res.Stdout), tail(res.Stderr))
	}
	held := 0
	for line := range strings.Lines(res.Stdout) {
		switch {
		case strings.HasPrefix(line, "held "):
			held++
		case strings.HasPrefix(line, "ESCAPED "):
			t.Errorf("%s", line)
		}
	}
	if held < at.held {
		t.Errorf("%d attempts were reported as held, want at least %d\n%s\n%s", held, at.held, res.Stdout, res.Stderr)
	}
	for _, rule := range at.rules {
		i := slices.IndexFunc(res.Denials, func(d api.Denial) bool { return d.Rule == rule })
		if i < 0 {
			t.Errorf("no denial names rule %s: %+v", rule, res.Denials)
			continue
		}
		if d := res.Denials[i]; d.What == "" || d.Errno == "" || d.Why == "" {
			t.Errorf("denial does not explain itself: %+v", d)
		}
	}
	if at.limit != "" && (res.Limit == nil || res.Limit.Name != at.limit || res.Limit.Value == "" || res.Limit.SetBy == "") {
		t.Errorf("limit %+v, want %s with value and set_by", res.Limit, at.limit)
	}
	if at.limit == "output" && !res.Truncated {
		t.Error("output limit without truncated")
	}
	if limit := at.within * harness.Slow / time.Second; limit > 0 && took > limit {
		t.Errorf("took %s, want at most %s", took, limit)
	}
	if res.Isolation.Grade != "syd" {
		t.Errorf("isolation %+v, want grade syd", res.Isolation)
	}
}

// compile builds a static program on the host and returns it in base64.
func compile(t *testing.T, src []byte) string {
	t.Helper()
	hosttest.Program(t, "gcc")
	out := t.TempDir() + "/attack"
	cmd := exec.Command("gcc", "-x", "c", "-O1", "-static", "-o", out, "-")
	cmd.Stdin = bytes.NewReader(src)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, b)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return encode(b)
}

func tail(s string) string {
	if len(s) > 2000 {
		return "…" + s[len(s)-2000:]
	}
	return s
}
