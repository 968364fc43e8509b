package socket

import (
	"slices"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// TestLimits: each limit ends the job with its own outcome, its value and who set it, is explained in the denials, and
// leaves no process of the job.
func TestLimits(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	slow := harness.Slow / time.Second
	for _, c := range []struct {
		name    string
		req     api.JobRequest
		outcome api.Outcome
		limit   api.Limit
	}{
		{"wall", sleep("60", api.Limits{Wall: api.Duration(time.Second * slow)}), api.OutcomeWallLimit, api.Limit{Name: "wall", SetBy: "request"}},
		{"cpu", code("while 1: pass", api.Limits{CPU: api.Duration(time.Second)}), api.OutcomeCPULimit, api.Limit{Name: "cpu", Value: "1s", SetBy: "request"}},
		{"memory", code("x=bytearray(10**9)", api.Limits{Memory: api.Quantity(128 << 20)}), api.OutcomeMemoryLimit, api.Limit{Name: "memory", Value: "128Mi", SetBy: "request"}},
		{"memory_in_shm", code("open('/dev/shm/x','wb').write(bytes(50<<20))\nopen('/tmp/x','wb').write(bytes(60<<20))\nx=bytearray(60<<20)", api.Limits{Memory: api.Quantity(128 << 20)}), api.OutcomeMemoryLimit, api.Limit{Name: "memory", Value: "128Mi", SetBy: "request"}},
		{"pids", code("import os,time\nfor i in range(100):\n  if os.fork()==0: time.sleep(60)", api.Limits{Pids: 20}), api.OutcomePidsLimit, api.Limit{Name: "pids", Value: "20", SetBy: "request"}},
		{"output", code("while 1: print('x'*1000)", api.Limits{Output: api.Quantity(64 << 10)}), api.OutcomeOutputLimit, api.Limit{Name: "output", Value: "64Ki", SetBy: "request"}},
		{"disk", code("import time\nf=open('big','wb')\nfor i in range(100):\n  f.write(bytes(10<<20)); f.flush(); time.sleep(.05)", api.Limits{Disk: api.Quantity(100 << 20)}), api.OutcomeDiskLimit, api.Limit{Name: "disk", Value: "100Mi", SetBy: "request"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := a.Run(c.req)
			if res.Outcome != c.outcome {
				t.Fatalf("outcome %s %s, want %s: %q %q", res.Outcome, res.Detail, c.outcome, res.Stdout[:min(200, len(res.Stdout))], res.Stderr)
			}
			if res.Limit == nil || res.Limit.Name != c.limit.Name || res.Limit.SetBy != c.limit.SetBy || c.limit.Value != "" && res.Limit.Value != c.limit.Value {
				t.Errorf("limit %+v, want %+v", res.Limit, c.limit)
			}
			if !slices.ContainsFunc(res.Denials, func(d api.Denial) bool { return d.Layer == "limit" && d.Rule == "limit."+c.limit.Name && d.Why != "" }) {
				t.Errorf("no denial explains the limit: %+v", res.Denials)
			}
		})
	}
}

func sleep(seconds string, l api.Limits) api.JobRequest {
	return api.JobRequest{Command: []string{"sleep", seconds}, Limits: l}
}

func code(src string, l api.Limits) api.JobRequest {
	return api.JobRequest{Language: "python", Code: src, Limits: l}
}
