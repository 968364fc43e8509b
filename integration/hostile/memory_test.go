package hostile

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestEveryKindOfMemory is E3: memory that the kernel holds for a job, in files without a disk, in queues and in tables, ends the
// job by its own limit and costs the node no more than that.
func TestEveryKindOfMemory(t *testing.T) {
	const limit = 48 << 20
	const overhead = 4 << 20 // of init, which is in the cgroup too and no part of the limit
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		for _, kind := range []string{"tmp", "shm", "mapped", "memfd", "pipes", "sockets", "page_tables", "epoll", "sysv"} {
			t.Run(kind, func(t *testing.T) {
				req := m.in(request(t, attack{file: "e03_memory.py"}))
				req.Command = append(req.Command, kind)
				req.Limits = api.Limits{Memory: limit, Shm: 4 * limit, OpenFiles: 20000, Wall: api.Duration(30 * harness.Slow)}
				start := time.Now()
				res := o.agent.Run(req)
				o.reached(t, res)
				if res.Outcome != api.OutcomeMemoryLimit || res.Limit == nil || res.Limit.Name != "memory" || res.Limit.SetBy != "request" {
					t.Errorf("%s %s %+v after %s\n%s", res.Outcome, res.Detail, res.Limit, time.Since(start), tail(res.Stderr))
				}
				if most := int64(limit + overhead); res.Usage.MemoryPeakBytes > most {
					t.Errorf("peak of %d bytes with a limit of %d", res.Usage.MemoryPeakBytes, limit)
				}
			})
		}
	})
}

// TestAgentIsNoVictim is E2: the kernel that looks for a process to kill finds the job's before the agent and its wardens.
func TestAgentIsNoVictim(t *testing.T) {
	inEveryMode(t, nil, func(t *testing.T, o *oracle, m mode) {
		job := begin(t, o.agent, m.in(api.JobRequest{Command: []string{"sh", "-c", "echo ready; exec sleep 7193"}}))
		init := parentOf(t, "sleep\x007193")
		score := func(pid string) string { return readFile(t, "/proc/"+pid+"/oom_score_adj") }
		pids := harness.Find("sleep\x007193")
		if len(pids) != 1 {
			t.Fatalf("processes %v, want one", pids)
		}
		if of := number(t, score(strconv.Itoa(pids[0]))); of <= number(t, score(strconv.Itoa(o.agent.PID))) || of < number(t, score(init)) {
			t.Errorf("oom_score_adj of the job %d, of its init %s, of the agent %s", of, score(init), score(strconv.Itoa(o.agent.PID)))
		}
		end(t, o.agent, job.ID)
	})
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
