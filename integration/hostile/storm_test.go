package hostile

import (
	"sync"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// forking is a program that always has processes under way, each in a session of its own and deaf to everything but SIGKILL.
const forking = `
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(6):
    if os.fork() == 0: break
else:
    os.write(1, b"ready\n")
while True:
    if os.fork() == 0:
        os.setsid()
        for _ in range(3):
            if os.fork() == 0: break
        os._exit(0)
    os.wait()
`

// TestCancelledWhileForking: a job that forks as fast as it can when it is cancelled, or when its wall limit comes, leaves nothing
// behind. A kill of the control group that lists processes one by one would miss some. Fifty rounds in all.
func TestCancelledWhileForking(t *testing.T) {
	const rounds = 17
	inEveryMode(t, []string{"--max-jobs", "2", "--grace", "20ms"}, func(t *testing.T, o *oracle, m mode) {
		cmdline := []string{"python3", "-c", forking, "7196"}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range (rounds + 1) / 2 {
					id := begun(t, o.agent, m.in(api.JobRequest{Command: cmdline}))
					if id == "" {
						return
					}
					if job := end(t, o.agent, id); job == nil || job.Result.Outcome != api.OutcomeCancelled {
						t.Errorf("cancelled while forking: %+v", job)
					}
				}
			})
		}
		wg.Wait()
		if left := harness.Find("python3\x00-c\x00" + forking + "\x007196"); len(left) != 0 {
			t.Errorf("processes left: %v", left)
		}
		res := o.agent.Run(m.in(api.JobRequest{Command: cmdline, Limits: api.Limits{Wall: api.Duration(harness.Slow / 2)}}))
		if res.Outcome != api.OutcomeWallLimit {
			t.Errorf("at its wall limit: %s", res.Outcome)
		}
		if left := harness.Find("python3\x00-c\x00" + forking + "\x007196"); len(left) != 0 {
			t.Errorf("processes left at the wall limit: %v", left)
		}
	})
}
