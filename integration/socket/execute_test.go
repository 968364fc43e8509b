package socket

import (
	"encoding/base64"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestSentProgramsRunAtOnce (P31): 64 clients at a time have a program executed the moment it was written, while the agent starts
// processes for the others. None is told that its program is still open for writing (ETXTBSY): not when it is a file of the request,
// nor when it is part of a workspace that is restored.
func TestSentProgramsRunAtOnce(t *testing.T) {
	const clients, restoring, rounds = 64, 16, 3
	program, err := os.ReadFile("/usr/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	a := harness.Start(t, harness.Options{Bucket: t.TempDir(), Args: []string{"--max-jobs", "16", "--queue", "64"}})
	request := func(n, round int) api.JobRequest {
		req := api.JobRequest{Command: []string{"./program", "ran"}}
		if n < restoring {
			req.Workspace = fmt.Sprint("tools-", n)
		}
		if n >= restoring || round == 0 { // the others find what the first round has saved
			req.Files = []api.File{{Path: "program", Mode: "0755", Encoding: "base64", Content: base64.StdEncoding.EncodeToString(program)}}
		}
		return req
	}
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			for round := range rounds {
				req := request(n, round)
				if res := a.Run(req); res.Outcome != api.OutcomeOK || res.Stdout != "ran\n" {
					t.Errorf("workspace %q, round %d: %s %s %s", req.Workspace, round, res.Outcome, res.Detail, res.Stderr)
				}
			}
		})
	}
	wg.Wait()
}
