package hostile

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// oracle looks at the node from outside after each attack.
type oracle struct {
	agent  *harness.Agent
	canary string // a file that no jail may see
	secret string
	victim *exec.Cmd // a process that no jail may touch
	before harness.Objects
}

func newOracle(t *testing.T, a *harness.Agent) *oracle {
	t.Helper()
	f, err := os.CreateTemp("/", "host-canary-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	o := &oracle{agent: a, canary: f.Name(), secret: "canary-" + filepath.Base(f.Name()) + "-text"}
	if _, err := f.WriteString(o.secret); err != nil {
		t.Fatal(err)
	}
	f.Close()
	o.victim = exec.Command("sleep", "3600")
	if err := o.victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.victim.Process.Kill(); o.victim.Wait() })
	for range 24 { // everything that is made once a slot is made
		o.ordinary(t)
	}
	o.before = a.Objects()
	return o
}

// reached is asked after every attack: nothing outside was read, changed or ended.
func (o *oracle) reached(t *testing.T, res *api.Result) {
	t.Helper()
	b, err := os.ReadFile(o.canary)
	if err != nil || string(b) != o.secret {
		t.Errorf("canary file changed: %q, %v", b, err)
	}
	if strings.Contains(res.Stdout+res.Stderr, o.secret) || strings.Contains(o.agent.Log(), o.secret) {
		t.Error("the canary's text came out of the jail")
	}
	if err := o.victim.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("canary process: %v", err)
	}
	if err := syscall.Kill(o.agent.PID, 0); err != nil {
		t.Errorf("agent: %v", err)
	}
}

// left is asked when no attack runs: the next ordinary job is well and the node holds what it held before.
func (o *oracle) left(t *testing.T) {
	t.Helper()
	o.ordinary(t)
	if diff := o.agent.WaitObjects(o.before, 5*harness.Slow); diff != "" {
		t.Errorf("not back to the baseline:\n%s", diff)
	}
}

// ordinary runs the next honest job.
func (o *oracle) ordinary(t *testing.T) {
	t.Helper()
	start := time.Now()
	if res := o.agent.Python("print(1+1)"); res.Outcome != api.OutcomeOK || res.Stdout != "2\n" {
		t.Errorf("the next ordinary job: %s %q %q", res.Outcome, res.Stdout, res.Stderr)
	}
	if took := time.Since(start); took > 2*harness.Slow {
		t.Errorf("the next ordinary job took %s", took)
	}
}
