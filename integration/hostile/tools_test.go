package hostile

import (
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestTracersSayWhy is A16 for the tools that people use: strace ends with a clear message, each call it was refused is named, and
// the fix, where the node permits it, makes it work. A node that does not permit it says so.
func TestTracersSayWhy(t *testing.T) {
	hosttest.Program(t, "strace")
	for _, extras := range []string{"", "ptrace"} {
		t.Run("extras="+extras, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Env: map[string]string{"TOLBOOTH_EXPLAINER": "notify", "TOLBOOTH_EXTRAS": extras}})
			for name, req := range map[string]api.JobRequest{
				"a child": {Command: []string{"strace", "-f", "-e", "trace=execve", "true"}},
				"another": {Command: []string{"sh", "-c", "sleep 3 & exec strace -e trace=none -p $!"}},
				"init":    {Command: []string{"strace", "-p", "1"}},
			} {
				res := a.Run(req)
				if res.Outcome != api.OutcomeExit || !strings.Contains(res.Stderr, "Operation not permitted") || !named(res, "syscall.ptrace") {
					t.Errorf("%s: %s %q %+v", name, res.Outcome, res.Stderr, res.Denials)
				}
				for _, d := range res.Denials {
					want := "null"
					if extras != "" {
						want = `{"policy":{"extras":["ptrace"]}}`
					}
					if d.Rule == "syscall.ptrace" && (string(d.Fix) != want || d.Program != "strace" || d.Why == "") {
						t.Errorf("%s: %+v, fix %s, want %s", name, d, d.Fix, want)
					}
				}
				if extras == "" {
					continue
				}
				req.Policy.Extras = []string{"ptrace"}
				res = a.Run(req)
				if ok := res.Outcome == api.OutcomeOK; ok == (name == "init") { // nobody traces init
					t.Errorf("%s with the fix: %s %q", name, res.Outcome, res.Stderr)
				}
			}
		})
	}
}
