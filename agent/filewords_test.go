package agent

import (
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

func testFacts() fileFacts {
	in := limits{
		Memory: limit[int64]{64 << 20, "request"}, Disk: limit[int64]{10 << 20, "node"}, Shm: limit[int64]{1 << 20, "default"},
		Inodes: limit[int64]{2000, "default"}, OpenFiles: limit[int64]{32, "default"}, Pids: limit[int64]{5, "default"}, Output: limit[int64]{1 << 20, "default"},
	}
	most := limits{Memory: limit[int64]{1 << 30, "node"}, Disk: limit[int64]{10 << 20, "node"}}
	return fileFacts{limits: in, most: most, peak: 40 << 20}
}

// TestFileWords: the error messages of real programs, and what each is explained as; an empty rule: not at all.
func TestFileWords(t *testing.T) {
	for _, c := range []struct{ text, rule, what, fix string }{
		{"OSError: [Errno 30] Read-only file system: '/usr/lib/x'\n", "file.read_only_base", "write /usr/lib/x", "null"},
		{"OSError: [Errno 30] Read-only file system: 'base.py'\n", "file.read_only_base", "write below a read-only directory", "null"},
		{"ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: '/usr/lib/python3/dist-packages/six.py'", "file.read_only_base", "write /usr/lib/python3/dist-packages/six.py", "null"},
		{"mkdir: cannot create directory ‘/usr/a b’: Read-only file system\n", "file.read_only_base", "write /usr/a b", "null"},
		{"bash: line 1: /usr/x: Read-only file system", "file.read_only_base", "write /usr/x", "null"},
		{"/bin/sh: 1: cannot create /usr/y: Read-only file system\n", "file.read_only_base", "write /usr/y", "null"},
		{"mv: cannot move '/usr/bin/ls' to '/tmp/ls': Read-only file system", "file.read_only_base", "write /usr/bin/ls", "null"},
		{"open /usr/x: read-only file system\n", "file.read_only_base", "write /usr/x", "null"},
		{"/usr/x: Read-only file system\n", "file.read_only_base", "write /usr/x", "null"},
		{"Error: EROFS: read-only file system, open '/usr/x'\n", "file.read_only_base", "write /usr/x", "null"},
		{"java.io.FileNotFoundException: /usr/x (Read-only file system)\n\tat java.base", "file.read_only_base", "write /usr/x", "null"},
		{"java.nio.file.FileSystemException: /usr/x: Read-only file system\n", "file.read_only_base", "write /usr/x", "null"},
		{"cannot open /usr/x: Read-only file system at -e line 1.\n", "file.read_only_base", "write /usr/x", "null"},
		{"'initialize': Read-only file system @ rb_sysopen - /usr/x (Errno::EROFS)\n", "file.read_only_base", "write /usr/x", "null"},
		{"/usr/bin/ld: cannot open output file /usr/x: Read-only file system\n", "file.read_only_base", "write /usr/x", "null"},
		{"touch: cannot touch '/tmp/../usr/x': Read-only file system\n", "file.read_only_base", "write /tmp/../usr/x", "null"},
		{"sh: cannot create /proc/sys/kernel/x: Read-only file system\n", "file.proc", "write /proc/sys/kernel/x", "null"},
		{"PermissionError: [Errno 13] Permission denied: '/etc/passwd'\n", "file.outside_writable", "open or change /etc/passwd", "null"},
		{"PermissionError: [Errno 13] Permission denied: '/workspace' -> '/w2'\n", "file.outside_writable", "open or change /w2", "null"},
		{"cat: /proc/1/environ: Permission denied\n", "file.proc", "open or change /proc/1/environ", "null"},
		{"tar: x: Cannot change ownership to uid 0, gid 0: Operation not permitted\n", "file.one_user", "change the owner of a file", "null"},
		{"dd: error writing '/tmp/x': No space left on device\n", "limit.memory", "write /tmp/x", `{"limits":{"memory":"128Mi"}}`},
		{"write /dev/shm/x: no space left on device\n", "limit.shm", "write /dev/shm/x", `{"limits":{"shm":"2Mi"}}`},
		{"  File \"/usr/lib/python3.11/multiprocessing/synchronize.py\", line 57\nOSError: [Errno 28] No space left on device\n", "limit.shm", "write more to /dev/shm", `{"limits":{"shm":"2Mi"}}`},
		{"OSError: [Errno 28] No space left on device\n", "limit.shm", "write to a full file system", `{"limits":{"memory":"128Mi","shm":"2Mi"}}`},
		{"dd: error writing '/workspace/x': No space left on device\n", "file.node_full", "write /workspace/x", "null"},
		{"OSError: [Errno 24] Too many open files: '/dev/null'\n", "limit.open_files", "have more than 32 files open in one process", `{"limits":{"open_files":64}}`},
		{"OSError: [Errno 27] File too large\n", "limit.disk", "make one file larger than limits.disk allows (10Mi)", "null"}, // at the node's cap

		{"touch: cannot touch '/workspace/x': Read-only file system\n", "", "", ""}, // no rule of ours does that
		{"cat: /workspace/x: Permission denied\n", "", "", ""},
		{"bash: ./x: Permission denied\n", "", "", ""},
		{"git@github.com: Permission denied (publickey).\n", "", "", ""},
		{"Get \"http://203.0.113.10:81/\": dial tcp 203.0.113.10:81: connect: operation not permitted\n", "", "", ""}, // a URL is no path
		{"mount: /mnt: permission denied.\n", "", "", ""},
		{"tail: inotify cannot be used, reverting to polling: Too many open files\n", "", "", ""},
		{"open: Too many open files in system\n", "", "", ""},
		{"/usr/include/asm-generic/errno-base.h:#define EROFS 30 /* Read-only file system */\n", "", "", ""},
		{"       EROFS  Read-only file system.\n", "", "", ""},
		{"write /usr/x: No space left on device\n", "", "", ""},
	} {
		got := testFacts().explain([]byte(c.text))
		if c.rule == "" {
			if len(got) != 0 {
				t.Errorf("%q: %+v", c.text, got)
			}
			continue
		}
		if len(got) != 1 {
			t.Errorf("%q: %+v", c.text, got)
			continue
		}
		d := got[0]
		if d.Rule != c.rule || d.What != c.what || string(d.Fix) != c.fix || d.Evidence != fromOutput || d.Count != 1 || d.Errno == "" || d.Why == "" {
			t.Errorf("%q: %+v, fix %s", c.text, d, d.Fix)
		}
	}
}

// TestOwnWords: where a job denied itself programs of its own, an error about one is that, and about the node's files it is not.
func TestOwnWords(t *testing.T) {
	f := testFacts()
	f.baseExecOnly = true
	for text, want := range map[string]string{
		"bash: ./x: Permission denied\n":                                 "execute a program outside the base",
		"PermissionError: [Errno 13] Permission denied: './own'\n":       "execute a program outside the base",
		"bash: line 1: /workspace/x: Permission denied\n":                "execute /workspace/x",
		"/tmp/x: Permission denied\n":                                    "execute /tmp/x",
		"PermissionError: [Errno 13] Permission denied: '/etc/passwd'\n": "open or change /etc/passwd",
		"mount: /mnt: permission denied.\n":                              "",
		"touch: cannot touch '/workspace/x': Read-only file system\n":    "",
	} {
		got := ""
		for _, d := range f.explain([]byte(text)) {
			got += d.What
			if ours := strings.HasPrefix(want, "execute"); ours != (d.Rule == "policy.execve_outside_base") || string(d.Fix) != "null" || ours && !strings.Contains(d.Why, "policy.deny: execve_outside_base") {
				t.Errorf("%q: %+v", text, d)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestFullByPeak: which limit a full memory file system ran into is decided by what the kernel measured.
func TestFullByPeak(t *testing.T) {
	f := testFacts()
	f.peak = 8 << 20 // less than /tmp holds, and more than 2000 names cost
	if got := f.explain([]byte("sh: /tmp/f2000: No space left on device\n")); len(got) != 1 || got[0].Rule != "limit.inodes" || string(got[0].Fix) != `{"limits":{"inodes":4000}}` {
		t.Errorf("%+v", got)
	}
	f.quota = true
	if got := f.explain([]byte("sh: /workspace/f: Disk quota exceeded\n")); len(got) != 1 || got[0].Rule != "limit.disk" || got[0].Errno != "EDQUOT" {
		t.Errorf("%+v", got)
	}
	f.inodes = 2000
	if got := f.explain([]byte("sh: /workspace/f: Disk quota exceeded\n")); len(got) != 1 || got[0].Rule != "limit.inodes" {
		t.Errorf("%+v", got)
	}
}

func TestRefusedCallsKeepTheirErrors(t *testing.T) {
	f := testFacts()
	f.callsRefused = true
	if got := f.explain([]byte("chroot: cannot change root directory to '/x': Operation not permitted\n")); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestManyFilesAreSummedUp: a list is bounded and says what is not on it.
func TestManyFilesAreSummedUp(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		text.WriteString("touch: cannot touch '/usr/" + wholeNumber(int64(i)) + "': Read-only file system\n")
	}
	got := testFacts().explain([]byte(text.String()), []byte("touch: cannot touch '/usr/0': Read-only file system\n"))
	if len(got) != maxFileDenials+1 || got[0].Count != 2 || got[maxFileDenials].Rule != "file.further" || got[maxFileDenials].Count != 100-maxFileDenials {
		t.Errorf("%d: %+v", len(got), got[len(got)-1])
	}
}

// TestHostileOutput: text made to cost time is read in little of it.
func TestHostileOutput(t *testing.T) {
	for _, piece := range []string{": Read-only file system", "'/", ": '/usr Permission denied", "(No space left on device)", "‘/\x1b", "\xff: File too large "} {
		text := []byte(strings.Repeat(piece, 1<<20/len(piece)))
		began := time.Now()
		testFacts().explain(text, text)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q: %v", piece, took)
		}
	}
}

func FuzzFileWords(f *testing.F) {
	for _, s := range []string{"OSError: [Errno 30] Read-only file system: '/usr/x'\n", "mkdir: cannot create ‘/usr/\xff’: Read-only file system", "a: No space left on device", "/x: Permission denied"} {
		f.Add([]byte(s), int64(1<<20))
	}
	f.Fuzz(func(t *testing.T, text []byte, peak int64) {
		facts := testFacts()
		facts.peak = peak
		list := facts.explain(text)
		if len(list) > maxFileDenials+1 {
			t.Fatal(len(list))
		}
		for _, d := range list {
			if d.Count < 1 || d.Rule == "" || d.Why == "" || len(d.What) > 1<<10 || !utf8.ValidString(d.What) || strings.ContainsAny(d.What, "\n\r\x1b\x00") || !jsontext.Value(d.Fix).IsValid() {
				t.Fatalf("%+v", d)
			}
		}
	})
}

func TestSignalWords(t *testing.T) {
	f := testFacts()
	f.most = limits{}
	for n, c := range map[int]struct{ rule, fix string }{
		11: {"signal.sigsegv", "null"}, 7: {"signal.sigbus", `{"limits":{"memory":"128Mi","shm":"2Mi"}}`}, 25: {"signal.sigxfsz", `{"limits":{"disk":"20Mi"}}`},
		15: {"signal.sigterm", "null"}, 9: {"signal.sigkill", "null"}, 31: {"signal.sigsys", "null"}, 40: {"signal.sig40", "null"},
	} {
		if d := f.signalled(syscall.Signal(n)); d.Layer != "signal" || d.Rule != c.rule || string(d.Fix) != c.fix || d.Why == "" || strings.HasSuffix(d.What, " ") || d.Evidence != fromKernel {
			t.Errorf("%d: %+v fix %s", n, d, d.Fix)
		}
	}
	f.peak = 512 << 10
	if d := f.signalled(7); string(d.Fix) != "null" {
		t.Errorf("a bus error without a full file system: %s", d.Fix)
	}
}

func TestChildSignals(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, c := range []struct {
		exit   *int
		stderr string
		want   string
	}{
		{code(139), "bash: line 1:    10 Segmentation fault      ./a.out\n", "signal.sigsegv"},
		{code(0), "/workspace/x.sh: line 3: 7 Killed  sleep 1\n", "signal.sigkill"},
		{code(134), "", "signal.sigabrt"},
		{code(1), "Segmentation fault in the story\n", ""},
		{code(141), "", ""},
		{code(255), "", ""},
	} {
		var rules []string
		for _, d := range testFacts().children(c.exit, []byte(c.stderr)) {
			rules = append(rules, d.Rule)
			if d.Evidence != fromOutput {
				t.Errorf("%+v", d)
			}
		}
		if got := strings.Join(rules, " "); got != c.want {
			t.Errorf("%d %q: %s", *c.exit, c.stderr, got)
		}
	}
}

// TestMemoryOfTheNode: a kill for memory far below the job's own limit is laid at the node's door.
func TestMemoryOfTheNode(t *testing.T) {
	in := testFacts().limits
	l := api.Limit{Name: "memory", Value: "64Mi", SetBy: "request"}
	if d := limitDenial(l, in, limits{}, api.Usage{MemoryPeakBytes: 64 << 20}); string(d.Fix) == "null" || !strings.Contains(d.Why, "64Mi at its peak") {
		t.Errorf("%+v", d)
	}
	if d := limitDenial(l, in, limits{}, api.Usage{MemoryPeakBytes: 9 << 20}); string(d.Fix) != "null" || !strings.Contains(d.Why, "the node itself") {
		t.Errorf("%+v", d)
	}
}
