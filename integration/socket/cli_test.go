package socket

import (
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestCommandLine: `tolbooth run` carries stdin, output and the end of a job, and says on stderr what was refused.
func TestCommandLine(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for _, c := range []struct {
		stdin  string
		args   []string
		code   int
		stdout string
		stderr string // a part of it
	}{
		{"one\ntwo\n", []string{"run", "-i", "--", "sort", "-r"}, 0, "two\none\n", ""},
		{"", []string{"run", "--", "sh", "-c", "echo out; exit 7"}, 7, "out\n", ""},
		{"", []string{"run", "--", "sh", "-c", "kill -TERM $$"}, 143, "", "SIGTERM"},
		{"", []string{"run", "--wall", "1s", "--", "sleep", "60"}, 124, "", "wall limit"},
		{"", []string{"run", "--memory", "64Mi", "--", "python3", "-c", "x=bytearray(10**9)"}, 137, "", "--memory 128Mi"},
		{"", []string{"run", "--base", "image:x", "--", "true"}, 125, "", "base"},
		{"", []string{"run", "--", "python3", "-c", "import socket\nsocket.socket().connect(('10.1.2.3', 443))"}, 1, "", "--allow 10.1.2.3:443/tcp"},
		{"", []string{"show", "no-such-job"}, 125, "", "no-such-job"},
	} {
		stdout, stderr, code := a.CLI(c.stdin, c.args...)
		if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
			t.Errorf("tolbooth %q: exit %d, stdout %q, stderr %q; want %+v", c.args, code, stdout, stderr, c)
		}
	}
}
