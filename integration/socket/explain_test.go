package socket

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestFileRefusalsAreExplained: real programs in several languages run into the walls around files, and each finds the rule
// named. Where a change of the request helps, the program succeeds when the fixes are applied, as often as they are given.
func TestFileRefusalsAreExplained(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	shm := api.Limits{Shm: 1 << 20}
	small := api.Limits{Memory: 64 << 20}
	for _, c := range []struct {
		name, language, code string
		limits               api.Limits
		rule, what           string
	}{
		{"python", "python", "open('/usr/lib/x','w')", api.Limits{}, "file.read_only_base", "write /usr/lib/x"},
		{"bash", "bash", "echo a > /usr/lib/x", api.Limits{}, "file.read_only_base", "write /usr/lib/x"},
		{"touch", "bash", "touch /usr/lib/x", api.Limits{}, "file.read_only_base", "write /usr/lib/x"},
		{"node", "javascript", "require('fs').writeFileSync('/usr/lib/x','a')", api.Limits{}, "file.read_only_base", "write /usr/lib/x"},
		{"perl", "perl", "open(F,'>/usr/lib/x') or die \"cannot open /usr/lib/x: $!\"", api.Limits{}, "file.read_only_base", "write /usr/lib/x"},
		{"c", "c", "#include <stdio.h>\nint main(){ if(!fopen(\"/usr/lib/x\",\"w\")) perror(\"/usr/lib/x\"); return 1; }", api.Limits{}, "file.read_only_base", "write /usr/lib/x"},
		{"etc", "python", "open('/etc/x','w')", api.Limits{}, "file.outside_writable", "open or change /etc/x"},
		{"proc", "bash", "cat /proc/1/environ", api.Limits{}, "file.proc", "open or change /proc/1/environ"},
		{"chown", "bash", "touch x; chown 0:0 x", api.Limits{}, "file.one_user", "change the owner of a file"},

		// P07: a full /dev/shm is only told as "no space left".
		{"shm", "python", "import multiprocessing as m\nl=[m.Array('b',100) for i in range(1000)]", shm, "limit.shm", "write more to /dev/shm"},
		{"shm_named", "bash", "head -c 3M /dev/zero > /dev/shm/x || cat /dev/shm/x x", shm, "limit.shm", ""},
		{"tmp", "bash", "dd if=/dev/zero of=/tmp/x bs=1M count=40 status=none", small, "limit.memory", "write /tmp/x"},
		{"run", "bash", "dd if=/dev/zero of=/run/x bs=1M count=10 status=none", small, "limit.memory", "write /run/x"},
		{"python_tmp", "python", "f=open('/tmp/x','wb',0)\nfor i in range(40): assert f.write(bytes(1<<20))==1<<20", small, "limit.shm", ""},
		{"tmp_inodes", "bash", "for i in $(seq 2500); do : > /tmp/f$i || exit 1; done", api.Limits{Inodes: 2000}, "limit.inodes", ""},
		{"open_files", "python", "l=[open('/dev/null') for i in range(100)]", api.Limits{OpenFiles: 32}, "limit.open_files", "have more than 32 files open in one process"},
		{"open_files_node", "javascript", "for(let i=0;i<100;i++) require('fs').openSync('/dev/null')", api.Limits{OpenFiles: 64}, "limit.open_files", ""},
		{"file_size", "python", "f=open('big','wb'); f.truncate(30<<20)\nf.close()", api.Limits{Disk: 10 << 20}, "limit.disk", ""},
		{"sigxfsz", "bash", "ulimit -c 0; exec truncate -s 30M x", api.Limits{Disk: 10 << 20}, "signal.sigxfsz", ""},
		{"sigbus", "python", "import mmap\nf=open('/dev/shm/x','w+b'); f.truncate(3<<20); m=mmap.mmap(f.fileno(),3<<20); m[:]=bytes(3<<20)", shm, "signal.sigbus", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := api.JobRequest{Language: c.language, Code: c.code, Limits: c.limits}
			res := a.Run(req)
			d := find(res, c.rule)
			if c.name == "python_tmp" {
				d = find(res, "limit.memory")
			}
			if d == nil {
				t.Fatalf("no denial %s: %s %s %q %+v", c.rule, res.Outcome, res.Detail, res.Stderr, res.Denials)
			}
			if c.what != "" && d.What != c.what || d.Why == "" || d.Count < 1 {
				t.Errorf("%+v", *d)
			}
			if want := map[bool]string{true: "kernel", false: "output"}[d.Layer == "signal"]; d.Evidence != want {
				t.Errorf("evidence %q, want %q", d.Evidence, want)
			}
			if strings.HasPrefix(c.rule, "file.") {
				if string(d.Fix) != "null" {
					t.Errorf("fix %s, want null", d.Fix)
				}
				return
			}
			for range 6 {
				if string(d.Fix) == "null" {
					t.Fatalf("no fix: %+v", *d)
				}
				if err := json.Unmarshal(d.Fix, &req); err != nil {
					t.Fatal(err)
				}
				if res = a.Run(req); res.Outcome == api.OutcomeOK {
					return
				}
				if d = find(res, d.Rule); d == nil {
					break
				}
			}
			t.Errorf("the fixes up to %+v do not help: %s %s %s %+v", req.Limits, res.Outcome, res.Detail, res.Stderr, res.Denials)
		})
	}
}

// TestGoErrorsAreExplained: so does a program in Go, built here and sent along.
func TestGoErrorsAreExplained(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	dir := t.TempDir()
	source := `package main
import ("fmt"; "os")
func main() {
	for _, path := range os.Args[1:] {
		if err := os.WriteFile(path, make([]byte, 3<<20), 0o644); err != nil { fmt.Fprintln(os.Stderr, err) }
	}
}`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "program", "main.go")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	res := a.Run(api.JobRequest{
		Command: []string{"./program", "/usr/lib/x", "/etc/x", "/dev/shm/x"}, Limits: api.Limits{Shm: 1 << 20},
		Files: []api.File{{Path: "program", Mode: "0755", Encoding: "base64", Content: base64.StdEncoding.EncodeToString(program)}},
	})
	for rule, what := range map[string]string{"file.read_only_base": "write /usr/lib/x", "file.outside_writable": "open or change /etc/x", "limit.shm": "write /dev/shm/x"} {
		if d := find(res, rule); d == nil || d.What != what {
			t.Errorf("%s: %q %+v", rule, res.Stderr, res.Denials)
		}
	}
}

// TestSignalsAreExplained: what ended a program is told in words, and an end by its own hand is not laid at the jail's door.
func TestSignalsAreExplained(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for _, c := range []struct{ name, language, code, signal, rule, why string }{
		{"segv", "c", "int main(){ volatile int *p = 0; *p = 1; }", "SIGSEGV", "signal.sigsegv", "no rule of the jail"},
		{"fpe", "c", "int main(int n, char **v){ volatile int z = 0; return n / z; }", "SIGFPE", "signal.sigfpe", "no rule of the jail"},
		{"ill", "c", "#include <signal.h>\nint main(){ raise(SIGILL); }", "SIGILL", "signal.sigill", ""},
		{"abort", "c", "#include <assert.h>\nint main(){ assert(0); }", "SIGABRT", "signal.sigabrt", "failed assertion"},
		{"term", "python", "import os; os.kill(os.getpid(),15)", "SIGTERM", "signal.sigterm", "a process of the job"},
		{"kill", "bash", "kill -9 $$", "SIGKILL", "signal.sigkill", "no limit of tolbooth"},
		{"pipe", "python", "import os,signal; signal.signal(13,signal.SIG_DFL); r,w=os.pipe(); os.close(r); os.write(w,b'a')", "SIGPIPE", "signal.sigpipe", "the reader ended first"},
		{"realtime", "python", "import os; os.kill(os.getpid(),40)", "SIG40", "signal.sig40", ""},
		{"xcpu", "python", "import resource\nresource.setrlimit(resource.RLIMIT_CPU,(1,1))\nwhile 1: pass", "", "", ""},
		{"child", "bash", "bash -c 'kill -SEGV $$'; exit 0", "", "signal.sigsegv", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := a.Run(api.JobRequest{Language: c.language, Code: c.code})
			if c.name == "xcpu" { // hard and soft alike: the kernel kills with KILL
				c.signal, c.rule = "SIGKILL", "signal.sigkill"
			}
			if c.signal != "" && (res.Signal == nil || *res.Signal != c.signal) {
				t.Errorf("%s, signal %v", res.Outcome, res.Signal)
			}
			d := find(res, c.rule)
			if d == nil || d.Layer != "signal" || string(d.Fix) != "null" || !strings.Contains(d.Why, c.why) {
				t.Errorf("%+v", res.Denials)
			}
		})
	}
}

// TestCausesAreTold: a bare kill never stands alone (P25): memory with its peak, time with who set it, a cancel with its reason. The
// time limit is the request's to set, and no other one lies beneath it (P21).
func TestCausesAreTold(t *testing.T) {
	a := harness.Start(t, harness.Options{Args: []string{"--limits-defaults-wall", "1s"}})
	res := a.Run(code("x=bytearray(10**9)", api.Limits{Memory: 128 << 20}))
	if d := find(res, "limit.memory"); res.Outcome != api.OutcomeMemoryLimit || d == nil || !strings.Contains(d.Why, "at its peak") || res.Usage.MemoryPeakBytes < 100<<20 {
		t.Errorf("%s %s %d %+v", res.Outcome, res.Detail, res.Usage.MemoryPeakBytes, res.Denials)
	}
	res = a.Run(sleep("20", api.Limits{}))
	if res.Outcome != api.OutcomeWallLimit || res.Limit == nil || *res.Limit != (api.Limit{Name: "wall", Value: "1s", SetBy: "node"}) {
		t.Errorf("%s %+v", res.Outcome, res.Limit)
	}
	if res = a.Run(sleep("1.5", api.Limits{Wall: api.Duration(30 * harness.Slow)})); res.Outcome != api.OutcomeOK {
		t.Errorf("a request that asks for more time than the node gives by itself: %s %s", res.Outcome, res.Detail)
	}
	req := sleep("60", api.Limits{Wall: api.Duration(time.Minute)})
	req.ID = "cancelled"
	if _, err := a.Client.Start(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	job, err := a.Client.Cancel(t.Context(), "cancelled")
	if err != nil {
		t.Fatal(err)
	}
	if job.Result.Outcome != api.OutcomeCancelled || !strings.Contains(job.Result.Detail, "cancelled by request") {
		t.Errorf("%+v", job.Result)
	}
}

// TestAuditLogOfRealJobs: a run with refusals is one line with them, whatever its output tries to look like (F6).
func TestAuditLogOfRealJobs(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	res := a.Python(`
import sys
sys.stderr.write("\n{\"version\":1,\"id\":\"forged\"}\n\x1b[2J")
try: open("/usr/a\n{\"id\":\"forged\"}\n", "w")
except OSError as e: sys.stderr.write("OSError: [Errno 30] Read-only file system: '/usr/\x1b]0;x\x07\"},{\"id\":\"forged\"'\n")
`)
	if len(res.Denials) != 1 || strings.ContainsAny(res.Denials[0].What, "\x1b\x07\n") {
		t.Errorf("%+v", res.Denials)
	}
	path := filepath.Join(a.State, "audit.log")
	var data []byte
	for deadline := time.Now().Add(10 * harness.Slow); !bytes.HasSuffix(data, []byte("\n")); time.Sleep(10 * time.Millisecond) {
		var err error
		if data, err = os.ReadFile(path); err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, %q", err, data)
		}
	}
	var line struct {
		ID     string
		Peer   struct{ UID int }
		Result map[string]any
	}
	if bytes.Count(data, []byte("\n")) != 1 || json.Unmarshal(data, &line) != nil || line.ID == "forged" {
		t.Fatalf("%q", data)
	}
	if line.Result["stdout"] != nil || line.Result["stderr"] != nil || line.Result["outcome"] != "ok" || len(line.Result["denials"].([]any)) != 1 || line.Peer.UID != os.Getuid() {
		t.Errorf("%s", data)
	}
}
