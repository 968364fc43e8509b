package hostile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestTeardownKeepsNobodyWaiting is B16: a job that leaves two thousand directories in one another and a directory of 60,000
// entries is taken apart behind its result, while new jobs start as they always do. (Package cowfs takes apart more.)
func TestTeardownKeepsNobodyWaiting(t *testing.T) {
	const litter = `
import os
top = os.getcwd()
for _ in range(2_000): os.mkdir("d"); os.chdir("d")
os.chdir(top); os.mkdir("many"); os.chdir("many")
for i in range(60_000): os.mknod("entry-%d" % i)
print("left", flush=True)
`
	a := harness.Start(t, harness.Options{Args: []string{"--max-jobs", "4"}})
	o := newOracle(t, a)
	alone := quickest(8, func() { o.ordinary(t) })
	res := a.Run(python(litter, api.Limits{Inodes: 100_000, Wall: api.Duration(60 * harness.Slow)}))
	if res.Outcome != api.OutcomeOK || res.Stdout != "left\n" {
		t.Fatalf("%s %s %q", res.Outcome, res.Detail, res.Stderr)
	}
	behind := quickest(8, func() { o.ordinary(t) })
	t.Logf("an ordinary job takes %s, beside a teardown %s", alone, behind)
	if behind > 4*alone+50*time.Millisecond {
		t.Errorf("an ordinary job takes %s beside the teardown, %s alone", behind, alone)
	}
	trash := filepath.Join(a.State, "trash")
	for deadline := time.Now().Add(60 * harness.Slow); ; time.Sleep(harness.Slow / 20) {
		left, err := os.ReadDir(trash)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d trees still lie in %s", len(left), trash)
		}
	}
	o.left(t)
}

// TestOutputCostsTheAgentNoMemory is E4: half a gigabyte of output, of which a few kilobytes are wanted, passes the warden alone.
func TestOutputCostsTheAgentNoMemory(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for range 8 {
		a.Python("print(1+1)")
	}
	before := resident(t, a.PID)
	req := api.JobRequest{Command: []string{"sh", "-c", "head -c 500000000 /dev/zero"}, Limits: api.Limits{Output: 4096}}
	peak := int64(0)
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				peak = max(peak, resident(t, a.PID))
			}
		}
	}()
	for range 4 {
		if res := a.Run(req); res.Outcome != api.OutcomeOutputLimit || !res.Truncated || len(res.Stdout) > 8192 {
			t.Errorf("%s, truncated %v, %d bytes", res.Outcome, res.Truncated, len(res.Stdout))
		}
	}
	close(stop)
	<-watched
	t.Logf("the agent holds %d kB, at most %d kB meanwhile", before>>10, peak>>10)
	if peak > before+32<<20 {
		t.Errorf("the agent held %d kB before and %d kB meanwhile", before>>10, peak>>10)
	}
}

// resident is the memory that a process holds.
func resident(t *testing.T, pid int) int64 {
	_, after, ok := strings.Cut(readFile(t, "/proc/"+strconv.Itoa(pid)+"/status"), "VmRSS:")
	fields := strings.Fields(after)
	if !ok || len(fields) == 0 {
		t.Error("no VmRSS")
		return 0
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Error(err)
	}
	return kb << 10
}
