package jail

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// wantStartError checks a StartError; an empty step or errno 0 means any.
func wantStartError(t *testing.T, err error, step string, errno syscall.Errno, words ...string) {
	t.Helper()
	var start *StartError
	if !errors.As(err, &start) {
		t.Fatalf("error %v, want a StartError", err)
	}
	if step != "" && start.Step != step || errno != 0 && start.Errno != errno {
		t.Errorf("step %q, errno %d (%s); want %q, %d", start.Step, start.Errno, start.Detail, step, errno)
	}
	for _, word := range words {
		if !strings.Contains(start.Detail, word) {
			t.Errorf("detail %q does not say %q", start.Detail, word)
		}
	}
}

func TestStartErrors(t *testing.T) { everyEngine(t, testStartErrors) }

func testStartErrors(t *testing.T, s *site) {
	for _, mode := range s.modes {
		for _, c := range []struct {
			name    string
			prepare func(*job)
			step    string
			errno   syscall.Errno
			words   []string
		}{
			{"no such command", func(j *job) { j.spec.Command = []string{"python4"} }, "command", unix.ENOENT, []string{"python4", "PATH=/usr/bin:/bin"}},
			{"no such path", func(j *job) { j.spec.Command = []string{"./a"} }, "command", unix.ENOENT, []string{"./a"}},
			{"not executable", func(j *job) { j.spec.Command = []string{"/etc/passwd"} }, "command", unix.EACCES, []string{"mode is 0644"}},
			{"directory", func(j *job) { j.spec.Command = []string{"/usr"} }, "command", unix.EACCES, []string{"directory"}},
			{"no program", func(j *job) { j.spec.Command = []string{"/workspace/text"} }, "execve", unix.ENOEXEC, []string{"#!"}},
			{"no interpreter", func(j *job) { j.spec.Command = []string{"/workspace/script"} }, "execve", unix.ENOENT, []string{"interpreter"}},
			{"no such cwd", func(j *job) { j.spec.Cwd = "/nowhere" }, "cwd", unix.ENOENT, []string{"/nowhere"}},
			{"cwd through a descriptor", func(j *job) { j.spec.Cwd = "/proc/self/fd/3" }, "cwd", 0, nil},
			{"cwd through init", func(j *job) { j.spec.Cwd = "/proc/1/cwd" }, "cwd", unix.EACCES, nil},
			{"landlock directory missing", func(j *job) { j.spec.Landlock.Write = []string{"/nowhere"} }, "landlock", unix.ENOENT, nil},
			{"tmpfs without limit", func(j *job) { j.root.Tmpfs[0].Bytes = 0 }, "tmpfs", 0, []string{"/tmp"}},
			{"tmpfs nowhere", func(j *job) { j.root.Tmpfs[0].Target = "/nowhere" }, "tmpfs", unix.ENOENT, nil},
			{"tmpfs over the root", func(j *job) { j.root.Tmpfs[0].Target = "/" }, "tmpfs", 0, nil},
			{"tmpfs above the root", func(j *job) { j.root.Tmpfs[0].Target = "/../tmp" }, "tmpfs", unix.EXDEV, nil},
			{"rlimit", func(j *job) { j.spec.Rlimits[0].Value = 1 << 40 }, "rlimits", unix.EPERM, nil},
		} {
			t.Run(string(mode)+"/"+c.name, func(t *testing.T) {
				j := s.newJob(t, mode, "true")
				defer j.close()
				dir := "/proc/self/fd/" + itoa(j.root.Mount.Fd()) + "/workspace/"
				for name, text := range map[string]string{"text": "hello\n", "script": "#!/nowhere\n"} {
					if err := os.WriteFile(dir+name, []byte(text), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				c.prepare(j)
				_, err := j.try()
				wantStartError(t, err, c.step, c.errno, c.words...)
				// What fails while the root is built, before there is a spool, is told by Build alone.
				if o := j.read(); c.step != "tmpfs" && (o.Cause != CauseStartFailed || o.Step != c.step) {
					t.Errorf("the spool has %+v", o.Exit)
				}
			})
		}
	}
}

func TestSpecIsChecked(t *testing.T) { everyEngine(t, testSpecIsChecked) }

func testSpecIsChecked(t *testing.T, s *site) {
	for name, change := range map[string]func(*job){
		"no root":    func(j *job) { j.root.Mount = nil },
		"no filter":  func(j *job) { j.spec.Filter = nil },
		"uid 0":      func(j *job) { j.spec.UID = 0 },
		"no command": func(j *job) { j.spec.Command = nil },
		"NUL":        func(j *job) { j.spec.Env = []string{"A=\x00"} },
		"long arguments": func(j *job) {
			j.spec.Env = []string{strings.Repeat("a", 100<<10), strings.Repeat("b", 100<<10), strings.Repeat("c", 100<<10)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := s.newJob(t, Syd, "true")
			defer j.close()
			change(j)
			if _, err := j.try(); err == nil {
				t.Error("started")
			}
		})
	}
}

func TestLongestCommand(t *testing.T) { everyEngine(t, testLongestCommand) }

func testLongestCommand(t *testing.T, s *site) {
	j := s.newJob(t, Syd, "sh", "-c", `echo ${#A} ${#B}`)
	j.spec.Env = append(j.spec.Env, "A="+strings.Repeat("a", 127<<10), "B="+strings.Repeat("b", 127<<10))
	if o := j.run(); o.stdout != "130048 130048\n" {
		t.Errorf("%q %+v", o.stdout, o.Exit)
	}
}

func TestBuildMismatch(t *testing.T) { everyEngine(t, testBuildMismatch) }

func testBuildMismatch(t *testing.T, s *site) {
	j := s.newJob(t, Syd, "true")
	defer j.close()
	was := wire.Build
	wire.Build = "another"
	defer func() { wire.Build = was }()
	_, err := s.launcher.Prepare(t.Context(), j.place)
	wantStartError(t, err, "build", 0, `"another"`, `"`+was+`"`)
}

func TestCancelledStart(t *testing.T) { everyEngine(t, testCancelledStart) }

func testCancelledStart(t *testing.T, s *site) {
	j := s.newJob(t, Syd, "true")
	defer j.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.launcher.Prepare(ctx, j.place); !errors.Is(err, context.Canceled) {
		t.Errorf("Prepare: %v", err)
	}
	again := s.newJob(t, Syd, "true") // a group that was killed takes no second jail
	defer again.close()
	p := again.build()
	if _, err := p.Start(ctx, again.spec); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	if _, err := p.Start(t.Context(), again.spec); err == nil {
		t.Error("started twice")
	}
}

func TestDiscard(t *testing.T) { everyEngine(t, testDiscard) }

func testDiscard(t *testing.T, s *site) {
	j := s.newJob(t, Syd, "true")
	defer j.close()
	p := j.prepare()
	pid := p.WardenPID()
	start := time.Now()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if alive(pid) {
		t.Error("the warden lives")
	}
	t.Logf("took %v", time.Since(start))
}
