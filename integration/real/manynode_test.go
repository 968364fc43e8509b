package real

import (
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestManyNodeJobs is P05 and P12: Node with a worker thread, 32 jobs at a time. Elsewhere one run in some hundreds fails, over a call
// that is refused now and then, or a library whose copy for this run another run's end removes. Here none does; what runs is the
// node's own /usr, of which nothing is copied.
func TestManyNodeJobs(t *testing.T) {
	hosttest.NotSlow(t, "160 starts of node take too long under emulation")
	hosttest.File(t, "/usr/bin/node", "make deps")
	jobs := soakJobs(t, 320) / 2
	a := harness.Start(t, harness.Options{Args: []string{"--max-jobs", "32", "--retain-jobs", "200"}})
	worker := api.JobRequest{
		Language: "javascript",
		Limits:   api.Limits{Wall: api.Duration(60 * harness.Slow), CPU: api.Duration(60 * harness.Slow)},
		Code: `
const { Worker } = require('worker_threads');
const cpus = require('os').cpus().length;
new Worker("require('worker_threads').parentPort.postMessage(require('os').uptime() > 0)", { eval: true })
  .on('message', up => console.log(up && cpus > 0));`,
	}
	runMany(t, a, worker, "true\n", jobs, 32)
}
