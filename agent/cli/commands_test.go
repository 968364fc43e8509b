package cli

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestPs(t *testing.T) {
	f := newFakeAgent(t)
	f.finished = true
	f.result = `{"outcome":"exit","exit_code":7,"usage":{"wall_ms":51}}`
	code, stdout, stderr := f.tolbooth(t, "", "ps")
	lines := strings.Split(stdout, "\n")
	if code != 0 || len(lines) != 3 || strings.Contains(stdout, "\x1b") {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if strings.Index(lines[0], "OUTCOME") != strings.Index(lines[1], "exit") || strings.Index(lines[0], "LABELS") != strings.Index(lines[1], "tenant=") {
		t.Errorf("columns are not aligned:\n%s", stdout)
	}
	if _, stdout, _ = f.tolbooth(t, "", "ps", "--json"); !strings.Contains(stdout, `"next_cursor": null`) {
		t.Errorf("ps --json: %q", stdout)
	}
}

func TestLogs(t *testing.T) {
	f := newFakeAgent(t)
	f.events = []string{
		`{"seq":0,"at_ms":0,"type":"stdout","data":"out"}`,
		`{"seq":1,"at_ms":0,"type":"stderr","data":"err"}`,
	}
	for _, args := range [][]string{{"logs", "-f", "j1"}, {"logs", "j1"}} {
		code, stdout, stderr := f.tolbooth(t, "", args...)
		if code != 0 || stdout != "out" || stderr != "err" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	_, stdout, _ := f.tolbooth(t, "", "logs", "--json", "j1")
	var e api.Event
	line, _, _ := strings.Cut(stdout, "\n")
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type != "stdout" {
		t.Errorf("logs --json: %q, %v", stdout, err)
	}
}

func TestLogsOfARunningJobEnd(t *testing.T) {
	f := newFakeAgent(t)
	f.eof = make(chan struct{}) // the job never ends
	f.events = []string{`{"seq":0,"at_ms":0,"type":"stdout","data":"so far"}`}
	code, stdout, stderr := f.tolbooth(t, "", "logs", "j1")
	if code != 0 || stdout != "so far" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestShow(t *testing.T) {
	f := newFakeAgent(t)
	f.finished = true
	f.result = `{"outcome":"signal","exit_code":null,"signal":"SIGSEGV","isolation":{"mode":"syd","grade":"syd","layers":["userns","seccomp"],"missing":["quota"]},
		"effective":{"env":["A","HOME"],"limits":[{"name":"wall","value":"30s","set_by":"request"},{"name":"shm","value":"64Mi","set_by":"default"}],"network":{},"policy":{}},
		"usage":{"wall_ms":51,"memory_peak_bytes":9123840,"orphans_killed":1},"timings_us":{"jail":1500},"snapshot":"s9",
		"denials":[{"what":"ptrace","rule":"syscall.ptrace","errno":"EPERM","count":1,"fix":null}]}`
	code, stdout, stderr := f.tolbooth(t, "", "show", "j1")
	for _, want := range []string{"ended by SIGSEGV", "mode syd, grade syd: userns seccomp", "missing    quota", "limits     wall 30s (request), shm 64Mi\n", "variables  A HOME\n", "8.7 MiB", "jail 1.5ms", "1 process still running", "s9", "syscall.ptrace"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("exit code %d: no %q in\n%s%s", code, want, stdout, stderr)
		}
	}
	if strings.Contains(stdout, "\x1b") {
		t.Errorf("a terminal sequence of a job came through: %q", stdout)
	}
}

func TestKill(t *testing.T) {
	f := newFakeAgent(t)
	for _, name := range []string{"usr1", "SIGHUP", "TERM"} {
		if code, _, stderr := f.tolbooth(t, "", "kill", "-s", name, "j1"); code != 0 {
			t.Errorf("kill -s %s: exit code %d, stderr %q", name, code, stderr)
		}
	}
	if got := strings.Join(f.signals, " "); got != "SIGUSR1 SIGHUP SIGTERM" {
		t.Errorf("signals %q", got)
	}
	f.result = `{"outcome":"cancelled","exit_code":null}`
	if code, stdout, stderr := f.tolbooth(t, "", "kill", "j1"); code != 0 || stdout != "j1 cancelled\n" {
		t.Errorf("kill: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestVersion(t *testing.T) {
	if code, stdout, _ := tolbooth(t, nil, "", "version"); code != 0 || !strings.HasPrefix(stdout, "tolbooth v1-test (go") || strings.Contains(stdout, "agent") {
		t.Errorf("version: %d %q", code, stdout)
	}
	if _, stdout, _ := newFakeAgent(t).tolbooth(t, "", "version"); !strings.Contains(stdout, "agent    v9") {
		t.Errorf("version with an agent: %q", stdout)
	}
}

func TestDoctor(t *testing.T) {
	hosttest.Filters(t)
	f := newFakeAgent(t)
	code, stdout, stderr := f.tolbooth(t, "", "doctor", "--json", "--state", t.TempDir())
	var d diagnosis
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatalf("exit code %d, stderr %q: %v", code, stderr, err)
	}
	if want := map[bool]int{true: 0, false: 1}[d.CanRun]; code != want || d.Mode != "syd" || !d.Agent.Reached {
		t.Errorf("exit code %d, diagnosis %+v", code, d)
	}
	_, stdout, _ = f.tolbooth(t, "", "doctor", "--backend", "minimal", "--state", t.TempDir())
	for _, want := range []string{"LAYER", "ptrace", "MODE", "minimal", "LANGUAGE", "flush is late", "mode minimal, which"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestDoctorOfAWrongConfiguration(t *testing.T) {
	code, _, stderr := tolbooth(t, nil, "", "doctor", "--backend", "docker")
	if code != 1 || !strings.Contains(stderr, "syd, minimal") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestEveryCommandTakesTheCommonFlags(t *testing.T) {
	tool := &tool{}
	for _, c := range tool.app().Commands {
		have := map[string]bool{}
		for _, flag := range c.Flags {
			for _, name := range flag.Names() {
				if have[name] {
					t.Errorf("%s has flag %s twice", c.Name, name)
				}
				have[name] = true
			}
		}
		for _, name := range []string{flagJSON, flagURL, flagSocket, flagToken} {
			if !have[name] {
				t.Errorf("%s has no --%s", c.Name, name)
			}
		}
	}
}
