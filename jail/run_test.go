package jail

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExit(t *testing.T) { everyEngine(t, testExit) }

func testExit(t *testing.T, s *site) {
	for _, mode := range s.modes {
		for _, c := range []struct {
			name    string
			command []string
			want    Exit
			stdout  string
			stderr  string
		}{
			{"true", []string{"true"}, Exit{Cause: CauseExit}, "", ""},
			{"code", []string{"sh", "-c", "echo out; echo err >&2; exit 7"}, Exit{Cause: CauseExit, Code: 7}, "out\n", "err\n"},
			{"signal", []string{"sh", "-c", "kill -SEGV $$"}, Exit{Cause: CauseSignal, Signal: int(unix.SIGSEGV)}, "", ""},
			{"killed", []string{"sh", "-c", "kill -KILL $$"}, Exit{Cause: CauseSignal, Signal: int(unix.SIGKILL)}, "", ""},
			{"path", []string{"/bin/echo", "x"}, Exit{Cause: CauseExit}, "x\n", ""},
			{"reopened", []string{"sh", "-c", "echo a >/dev/stdout; echo b >/proc/self/fd/2"}, Exit{Cause: CauseExit}, "a\n", "b\n"},
		} {
			t.Run(string(mode)+"/"+c.name, func(t *testing.T) {
				o := s.newJob(t, mode, c.command...).run()
				if o.Cause != c.want.Cause || o.Code != c.want.Code || o.Signal != c.want.Signal {
					t.Errorf("exit %+v, want %+v", o.Exit, c.want)
				}
				if o.stdout != c.stdout || o.stderr != c.stderr {
					t.Errorf("printed %q and %q, want %q and %q", o.stdout, o.stderr, c.stdout, c.stderr)
				}
				if o.StdoutBytes != int64(len(c.stdout)) || o.StderrBytes != int64(len(c.stderr)) || o.Truncated {
					t.Errorf("counted %d and %d bytes", o.StdoutBytes, o.StderrBytes)
				}
				if o.StartUS <= 0 || o.RunUS < 0 || o.Orphans != 0 || len(o.denials) != 0 {
					t.Errorf("exit %+v, denials %v", o.Exit, o.denials)
				}
			})
		}
	}
}

// TestResize gives a memory file system of a waiting jail the limits of the job that came.
func TestResize(t *testing.T) { everyEngine(t, testResize) }

func testResize(t *testing.T, s *site) {
	for _, mode := range s.modes {
		j := s.newJob(t, mode, "sh", "-c", "df -k --output=size /tmp /dev/shm | tail -n 2; head -c 3M /dev/zero >/tmp/x; ls /tmp | wc -l")
		j.spec.Resize = []Tmpfs{{Target: "/tmp", Bytes: 2 << 20, Inodes: 50}}
		if o := j.run(); strings.Join(strings.Fields(o.stdout), " ") != "2048 16384 1" || !strings.Contains(o.stderr, "No space left") {
			t.Errorf("%s: %q %q %+v", mode, o.stdout, o.stderr, o.Exit)
		}
	}
	j := s.newJob(t, Syd, "true")
	defer j.close()
	j.spec.Resize = []Tmpfs{{Target: "/etc", Bytes: 1}}
	_, err := j.try()
	wantStartError(t, err, "tmpfs", 0, "/etc")
}
