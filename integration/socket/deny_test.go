package socket

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// TestAnyCallCanBeDenied takes each call away that a job has by default, and starts a program: either the request is refused and
// says why, or the program starts, and what comes of it without the call is its own affair.
func TestAnyCallCanBeDenied(t *testing.T) {
	p, err := policy.Default(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	for _, explainer := range []string{"notify", "ptrace"} {
		t.Run(explainer, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Args: []string{"--explainer", explainer}})
			var names []string
			for _, call := range p.Allowed() {
				name := "syscall." + call
				_, err := policy.For(runtime.GOARCH, policy.Change{Deny: []string{name}})
				if err == nil {
					names = append(names, name)
					continue
				}
				if _, err := startWithout(t, a, name); client.Class(err) != api.ClassInvalid || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", call, err)
				}
			}
			// A job for each would take a minute. Everything up to execve is the same for all, so many at once tell as much.
			for some := range slices.Chunk(names, 16) {
				if why, err := startWithout(t, a, some...); err != nil || why != "" {
					t.Errorf("%v: %s, %v", some, why, err)
				}
			}
			if len(names) < 250 {
				t.Errorf("only %d calls", len(names))
			}
		})
	}
}

// startWithout runs a program without some calls and says why it did not start.
func startWithout(t *testing.T, a *harness.Agent, names ...string) (why string, err error) {
	t.Helper()
	job, err := a.Client.Run(t.Context(), api.JobRequest{Command: []string{"true"}, Policy: api.Policy{Deny: names}})
	if err != nil {
		return "", err
	}
	switch r := job.Result; r.Outcome {
	case api.OutcomeStartFailed, api.OutcomeAgentLost, api.OutcomeWallLimit:
		why = string(r.Outcome) + " " + r.Detail
	}
	return why, nil
}
