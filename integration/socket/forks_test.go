package socket

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestForksWithoutAPidsLimit (P30): a request that limits nothing but memory has a limit on processes all the same, and a hundred
// processes of a job cost the agent and the job's warden no descriptor more than one does.
func TestForksWithoutAPidsLimit(t *testing.T) {
	for _, explainer := range []string{"notify", "ptrace"} {
		t.Run(explainer, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Env: map[string]string{"TOLBOOTH_EXPLAINER": explainer}})
			limits := api.Limits{Memory: 256 << 20, Wall: api.Duration(60 * harness.Slow)}
			descriptors := func(processes int) (agent, warden int) {
				t.Helper()
				src := fmt.Sprintf("import os\nfor n in range(%d):\n    if os.fork() == 0: break\nos.execvp('sleep', ['sleep', '719%d'])", processes-1, processes%10)
				req := code(src, limits)
				req.ID = fmt.Sprint("forks-", processes)
				if _, err := a.Client.Start(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				command := fmt.Sprintf("sleep\x00719%d", processes%10)
				for deadline := time.Now().Add(30 * harness.Slow); len(harness.Find(command)) < processes; time.Sleep(harness.Slow / 50) {
					if time.Now().After(deadline) {
						t.Fatalf("%d processes, want %d", len(harness.Find(command)), processes)
					}
				}
				agent, warden = a.Objects().Descriptors, openFiles(t, a.WardenOf(command))
				if _, err := a.Client.Cancel(t.Context(), req.ID); err != nil {
					t.Fatal(err)
				}
				return agent, warden
			}
			agent, warden := descriptors(1)
			agentOfMany, wardenOfMany := descriptors(100)
			if agentOfMany > agent+2 || wardenOfMany > warden {
				t.Errorf("descriptors of the agent and of the warden: %d and %d with one process, %d and %d with a hundred", agent, warden, agentOfMany, wardenOfMany)
			}

			res := a.Run(code("import os\nwhile True: os.fork()", limits))
			if res.Outcome != api.OutcomePidsLimit || res.Limit == nil || *res.Limit != (api.Limit{Name: "pids", Value: "128", SetBy: "default"}) {
				t.Errorf("%s %s %+v", res.Outcome, res.Detail, res.Limit)
			}
			if res := a.Sh("echo alive"); res.Stdout != "alive\n" {
				t.Errorf("the next job: %s %s", res.Outcome, res.Detail)
			}
		})
	}
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}
