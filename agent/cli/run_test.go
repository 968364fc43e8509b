package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

func TestRequestFromFlags(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.py")
	if err := os.WriteFile(source, []byte("print(1)"), 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "b.bin")
	if err := os.WriteFile(binary, []byte{0xff, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	no := false
	for _, tc := range []struct {
		name  string
		args  []string
		stdin string
		want  api.JobRequest
	}{
		{"command", []string{"--", "echo", "--json", "a b"}, "", api.JobRequest{Command: []string{"echo", "--json", "a b"}}},
		{"command without dashes", []string{"echo", "-n"}, "", api.JobRequest{Command: []string{"echo", "-n"}}},
		{"source file", []string{"--lang", "python", source}, "", api.JobRequest{Language: "python", Code: "print(1)"}},
		{"source from stdin", []string{"--lang", "bash", "-"}, "echo hi", api.JobRequest{Language: "bash", Code: "echo hi"}},
		{"limits", []string{"--limit", "memory=1Gi", "--wall", "90s", "--cpus", "1.5", "--pids", "7", "--output-limit", "2Mi", "--limit", "open_files=99", "true"}, "",
			api.JobRequest{Command: []string{"true"}, Limits: api.Limits{Memory: 1 << 30, Wall: api.Duration(90 * time.Second), CPUs: 1.5, Pids: 7, Output: 2 << 20, OpenFiles: 99}}},
		{"policy", []string{"--extra", "ptrace", "--forbid", "sockets", "--forbid", "syscall.personality", "true"}, "",
			api.JobRequest{Command: []string{"true"}, Policy: api.Policy{Extras: []string{"ptrace"}, Deny: []string{"sockets", "syscall.personality"}}}},
		{"network", []string{"--allow", "10.0.0.0/8:5432/tcp", "--allow", "[fd00::1]:53/udp", "--deny", "10.1.0.0/16", "true"}, "",
			api.JobRequest{Command: []string{"true"}, Network: api.Network{Mode: "allow", Allow: []string{"10.0.0.0/8:5432/tcp", "[fd00::1]:53/udp"}, Deny: []string{"10.1.0.0/16"}}}},
		{"network mode", []string{"--net", "open", "true"}, "", api.JobRequest{Command: []string{"true"}, Network: api.Network{Mode: "open"}}},
		{"files", []string{"--file", source + ":src/m.py", "--file", binary, "true"}, "", api.JobRequest{Command: []string{"true"}, Files: []api.File{
			{Path: "src/m.py", Content: "print(1)", Encoding: "utf-8", Mode: "0755"},
			{Path: "b.bin", Content: "/wA=", Encoding: "base64", Mode: "0600"},
		}}},
		{"the rest", []string{"--id", "j1", "-e", "A=b=c,d", "-e", "E=", "--cwd", "sub", "--base", "host", "--jail", "minimal", "--min-grade", "syd", "-w", "ws", "-o", "*.png", "-o", "out/**", "-l", "tenant=acme", "--stdin-text", "5\n", "cat"}, "",
			api.JobRequest{ID: "j1", Command: []string{"cat"}, Env: map[string]string{"A": "b=c,d", "E": ""}, Cwd: "sub", Base: "host", Jail: "minimal", MinGrade: "syd",
				Workspace: "ws", Outputs: []string{"*.png", "out/**"}, Labels: map[string]string{"tenant": "acme"}, Stdin: api.Stdin{Text: "5\n"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFakeAgent(t)
			code, _, stderr := f.tolbooth(t, tc.stdin, append([]string{"run"}, tc.args...)...)
			if code != 0 {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			tc.want.Wait = &no
			if diff := cmp.Diff(tc.want, f.request); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongUsage(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"run", "nothing to run"},
		{"run --lang python", "exactly one source file"},
		{"run --lang python a b", "exactly one source file"},
		{"run --lang python --stdin -", "nothing left"},
		{"run --stdin --detach cat", "leave out --detach"},
		{"run --stdin --stdin-text x cat", "give one of them"},
		{"run --env X true", "NAME=VALUE"},
		{"run --memory lots true", "memory=lots"},
		{"run --pids many true", "no number"},
		{"run --pids 1.5 true", "pids=1.5"},
		{"run --limit colour=red true", `no limit "colour"; there are wall, cpu`},
		{"run --file : true", "LOCAL:DEST"},
		{"run --nonsense true", "nonsense"},
		{"run --socket /a --url unix:///b true", "give one of them"},
		{"logs", "exactly one job id"},
		{"logs j1 -f", "flags come before it"},
		{"show", "exactly one job id"},
		{"kill a b", "exactly one job id"},
		{"ps x", "takes no arguments"},
		{"ps --limit 0", "at least 1"},
		{"version x", "takes no arguments"},
		{"frobnicate", "no command"},
		{"agent", "no command"}, // main hands it in; without it there is none
	} {
		code, stdout, stderr := tolbooth(t, nil, "", strings.Fields(tc.args)...)
		if code != exitUsage || !strings.Contains(stderr, tc.want) || stdout != "" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %q", tc.args, code, stdout, stderr, tc.want)
		}
	}
}

// TestAgentArguments: a word behind agent, a flag without its dashes perhaps, is not passed over.
func TestAgentArguments(t *testing.T) {
	var stderr strings.Builder
	code := Main(t.Context(), []string{"tolbooth", "agent", "state=/x"}, Options{
		Stdout: io.Discard, Stderr: &stderr, RunAgent: func(*cli.Context) error { return nil },
	})
	if code != exitUsage || !strings.Contains(stderr.String(), `"state=/x"`) {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

func TestOutputStreams(t *testing.T) {
	f := newFakeAgent(t)
	f.events = []string{
		`{"seq":0,"at_ms":0,"type":"state","data":{"state":"running"}}`,
		`{"seq":1,"at_ms":1,"type":"stdout","data":"a\u001b[1m","encoding":"utf-8"}`,
		`{"seq":2,"at_ms":2,"type":"stderr","data":"e\n","encoding":"utf-8"}`,
		`{"seq":3,"at_ms":3,"type":"stdout","data":"/wA=","encoding":"base64"}`,
	}
	f.result = `{"outcome":"exit","exit_code":7}`
	code, stdout, stderr := f.tolbooth(t, "", "run", "x")
	if code != 7 || stdout != "a\x1b[1m\xff\x00" || stderr != "e\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestExitCodes(t *testing.T) {
	three, sigterm, sigodd := 3, "SIGTERM", "SIGRTMIN+1"
	for _, tc := range []struct {
		r    api.Result
		want int
	}{
		{api.Result{Outcome: api.OutcomeOK}, 0},
		{api.Result{Outcome: api.OutcomeExit, ExitCode: &three}, 3},
		{api.Result{Outcome: api.OutcomeExit}, 125},
		{api.Result{Outcome: api.OutcomeSignal, Signal: &sigterm}, 143},
		{api.Result{Outcome: api.OutcomeSignal, Signal: &sigodd}, 125},
		{api.Result{Outcome: api.OutcomeWallLimit, Signal: &sigterm}, 124},
		{api.Result{Outcome: api.OutcomeMemoryLimit}, 137},
		{api.Result{Outcome: api.OutcomeCPULimit}, 152},
		{api.Result{Outcome: api.OutcomeOutputLimit}, 153},
		{api.Result{Outcome: api.OutcomeDiskLimit}, 154},
		{api.Result{Outcome: api.OutcomePidsLimit}, 155},
		{api.Result{Outcome: api.OutcomeDenied}, 159},
		{api.Result{Outcome: api.OutcomeCancelled}, 130},
		{api.Result{Outcome: api.OutcomeStartFailed}, 126},
		{api.Result{Outcome: api.OutcomeAgentLost}, 125},
		{api.Result{Outcome: "something_new"}, 125},
		{api.Result{}, 125},
	} {
		if got := exitCode(&tc.r); got != tc.want {
			t.Errorf("%s: exit code %d, want %d", tc.r.Outcome, got, tc.want)
		}
	}
}

func TestRefusalsAreExplained(t *testing.T) {
	f := newFakeAgent(t)
	f.result = `{"outcome":"exit","exit_code":1,"denials":[
		{"layer":"network","what":"connect 169.254.169.254:80/tcp","rule":"network.metadata","errno":"EPERM","count":3,"program":"python3","fix":null,"why":"cloud metadata is never reachable"},
		{"layer":"network","what":"connect 10.1.2.3:443/tcp","rule":"network.none","errno":"EPERM","count":1,"program":"cu\u001b]0;x\u0007rl","fix":{"network":{"mode":"allow","allow":["10.1.2.3:443/tcp"]}},"why":"the job has no network"},
		{"layer":"network","what":"send a packet to 10.1.2.3/icmp","rule":"network.default","errno":"","count":1,"program":"","fix":{"network":{"allow":["10.0.0.1:80/tcp","10.1.2.3/icmp"]}},"why":"w"},
		{"layer":"syscall","what":"ptrace","rule":"syscall.ptrace","errno":"EPERM","count":1,"program":"gdb","fix":{"policy":{"extras":["ptrace"]}},"why":""}]}`
	code, _, stderr := f.tolbooth(t, "", "run", "x")
	want := `tolbooth: refused: 4 attempts
  connect 169.254.169.254:80/tcp by python3, 3 times: EPERM by rule network.metadata
    why: cloud metadata is never reachable
    fix: none
  connect 10.1.2.3:443/tcp by cu�]0;x�rl: EPERM by rule network.none
    why: the job has no network
    fix: run with --allow 10.1.2.3:443/tcp
  send a packet to 10.1.2.3/icmp: dropped by rule network.default
    why: w
    fix: run with --allow 10.0.0.1:80/tcp --allow 10.1.2.3/icmp
  ptrace by gdb: EPERM by rule syscall.ptrace
    fix: add to the request: {"policy":{"extras":["ptrace"]}}
`
	if code != 1 || stderr != want {
		t.Errorf("exit code %d, stderr\n%s\nwant\n%s", code, stderr, want)
	}
}

func TestLimitIsNamed(t *testing.T) {
	f := newFakeAgent(t)
	f.result = `{"outcome":"memory_limit","exit_code":null,"signal":"SIGKILL","limit":{"name":"memory","value":"512Mi","set_by":"default"},"truncated":true,"stdout_bytes":9,"stderr_bytes":1,
		"outputs":[{"path":"big","bytes":99,"omitted":"over 1Mi"}],
		"denials":[{"layer":"limit","what":"use more memory than 512Mi","rule":"limit.memory","errno":"ENOMEM","count":1,"fix":{"limits":{"memory":"1Gi"}}}]}`
	code, _, stderr := f.tolbooth(t, "", "run", "x")
	want := "tolbooth: memory limit: 512Mi, set by the default\n" +
		"  fix: run with --memory 1Gi\n" +
		"tolbooth: output cut: the program printed 9 bytes on stdout, 1 on stderr; raise it with --output-limit\n" +
		"tolbooth: big (99 bytes) is not returned: over 1Mi\n"
	if code != 137 || stderr != want {
		t.Errorf("exit code %d, stderr\n%s\nwant\n%s", code, stderr, want)
	}
}

func TestEndInWords(t *testing.T) {
	sigsegv := "SIGSEGV"
	for _, tc := range []struct {
		r    api.Result
		want string
	}{
		{api.Result{Outcome: api.OutcomeOK}, ""},
		{api.Result{Outcome: api.OutcomeOK, Detail: "the workspace was not flushed"}, "the workspace was not flushed"},
		{api.Result{Outcome: api.OutcomeSignal, Signal: &sigsegv}, "ended by SIGSEGV"},
		{api.Result{Outcome: api.OutcomeWallLimit, Limit: &api.Limit{Name: "wall", Value: "1s", SetBy: "request"}, Detail: "the wall limit of 1s ended the job"}, "wall limit: the wall limit of 1s ended the job"},
		{api.Result{Outcome: api.OutcomeStartFailed, Detail: "execve: no\x1b[2Jsuch file"}, "start failed: execve: no\ufffd[2Jsuch file"},
	} {
		if got := endText(&tc.r); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.r.Outcome, got, tc.want)
		}
	}
}

func TestFixOfALimit(t *testing.T) {
	if got := fixText([]byte(`{"limits":{"pids":1000000}}`)); got != "run with --pids 1000000" {
		t.Errorf("fix %q", got)
	}
	if got := fixText([]byte(`{"limits":{"output":"2Mi"}}`)); got != "run with --output-limit 2Mi" {
		t.Errorf("fix %q", got)
	}
}

func TestProblemOfThePost(t *testing.T) {
	f := newFakeAgent(t)
	f.refuse = `{"title":"t","status":422,"class":"unsupported","field":"tty","detail":"no terminals yet","hint":"leave it out"}`
	code, stdout, stderr := f.tolbooth(t, "", "run", "x")
	if code != exitFailed || stdout != "" || stderr != "tolbooth: unsupported: tty: no terminals yet (leave it out)\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestNoAgent(t *testing.T) {
	code, _, stderr := tolbooth(t, map[string]string{"SANDBOX_MANAGER_URL": "unix:///nonexistent/s"}, "", "run", "x")
	if code != exitFailed || !strings.Contains(stderr, "agent at unix:///nonexistent/s") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestStdinIsPassedOn(t *testing.T) {
	f := newFakeAgent(t)
	f.eof = make(chan struct{})
	code, _, stderr := f.tolbooth(t, "one\ntwo\n", "run", "--stdin", "cat")
	if code != 0 || f.stdin.String() != "one\ntwo\n" || !f.request.Stdin.Open {
		t.Errorf("exit code %d, stdin %q, open %v, stderr %q", code, f.stdin.String(), f.request.Stdin.Open, stderr)
	}
}

func TestInterruptCancels(t *testing.T) {
	f := newFakeAgent(t)
	f.eof = make(chan struct{}) // never closed: only DELETE ends the job
	f.events = []string{`{"seq":0,"at_ms":0,"type":"stdout","data":"started"}`}
	f.result = `{"outcome":"cancelled","exit_code":null}`
	go func() {
		time.Sleep(100 * time.Millisecond)
		syscall.Kill(syscall.Getpid(), syscall.SIGINT)
	}()
	code, stdout, stderr := f.tolbooth(t, "", "run", "sleep", "9")
	if code != 130 || stdout != "started" || !strings.Contains(stderr, "cancelling") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// closedPipe is an output that nobody reads any more.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestJobEndsWithItsReader(t *testing.T) {
	f := newFakeAgent(t)
	f.eof = make(chan struct{}) // never closed: only DELETE ends the job
	f.events = []string{`{"seq":0,"at_ms":0,"type":"stdout","data":"y"}`}
	code := Main(t.Context(), []string{"tolbooth", "run", "yes"}, Options{
		Stdin: strings.NewReader(""), Stdout: closedPipe{}, Stderr: io.Discard,
		Getenv: func(string) string { return "unix://" + f.socket },
	})
	if code != 141 {
		t.Errorf("exit code %d", code)
	}
	select {
	case <-f.cancel:
	default:
		t.Error("the job was not cancelled")
	}
}

func TestDetach(t *testing.T) {
	code, stdout, _ := newFakeAgent(t).tolbooth(t, "", "run", "--detach", "x")
	if code != 0 || stdout != "j1\n" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
}

func TestJSONIsTheJob(t *testing.T) {
	f := newFakeAgent(t)
	f.finished = true
	f.result = `{"outcome":"exit","exit_code":4}`
	code, stdout, stderr := f.tolbooth(t, "", "run", "--json", "x")
	var job api.Job
	if err := json.Unmarshal([]byte(stdout), &job); err != nil || code != 4 || job.ID != "j1" || *job.Result.ExitCode != 4 || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q, error %v", code, stdout, stderr, err)
	}
}

func TestOutputsStayBelowTheirDirectory(t *testing.T) {
	f := newFakeAgent(t)
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(outside, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f.result = `{"outcome":"ok","exit_code":0,"outputs":[{"path":"a/b.bin","bytes":2,"mode":"4755","content":"/wA=","encoding":"base64"},{"path":"/abs","bytes":1,"mode":"0600","content":"x","encoding":"utf-8"}]}`
	if code, _, stderr := f.tolbooth(t, "", "run", "--output-dir", dir, "x"); code != 0 {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for name, want := range map[string]string{"a/b.bin": "\xff\x00", "abs": "x"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a/b.bin")); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v, %v: no set-user-id bit may be written", info.Mode(), err)
	}
	for _, hostile := range []string{"../victim", "link", "a/../../victim"} {
		f.finished = false
		f.result = `{"outcome":"ok","exit_code":0,"outputs":[{"path":"` + hostile + `","bytes":1,"mode":"0644","content":"new","encoding":"utf-8"}]}`
		if code, _, stderr := f.tolbooth(t, "", "run", "--output-dir", dir, "x"); code != exitFailed {
			t.Errorf("%s: exit code %d, stderr %q", hostile, code, stderr)
		}
	}
	if got, _ := os.ReadFile(outside); string(got) != "old" {
		t.Errorf("a file outside was written: %q", got)
	}
}
