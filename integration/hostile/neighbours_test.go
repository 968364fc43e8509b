package hostile

import (
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// storms are programs that strain what jobs share, each with the work of a sibling that they must not slow down too much.
var storms = []struct {
	name, storm, sibling string
	times                float64 // the sibling may take this many times as long
}{
	// Eight processes make refused calls as fast as they can. The warden's work for them is theirs.
	{"refused calls", `
import ctypes, os
libc = ctypes.CDLL(None)
print("ready", flush=True)
for _ in range(7):
    if os.fork() == 0: break
while True: libc.ptrace(0, 0, 0, 0)
`, "print(sum(range(10**6)))", 4},
	// A process writes and overwrites, and never waits for the disk.
	{"disk writes", `
import os
print("ready", flush=True)
x = bytes(1 << 20)
while True:
    fd = os.open("big", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for _ in range(100): os.write(fd, x)
    os.close(fd)
`, `
import os
for i in range(10):
    fd = os.open("f%d" % i, os.O_CREAT | os.O_WRONLY); os.write(fd, b"x" * 4096); os.fsync(fd); os.close(fd)
`, 20},
	// Processes come and go.
	{"forks", `
import os
print("ready", flush=True)
while True:
    for _ in range(20):
        if os.fork() == 0: os._exit(0)
    for _ in range(20): os.wait()
`, "print(sum(range(10**6)))", 4},
	// Pages come and go at the limit of the job's memory.
	{"memory", `
import mmap
print("ready", flush=True)
while True:
    m = mmap.mmap(-1, 96 << 20)
    for at in range(0, 96 << 20, 4096): m[at] = 1
    m.close()
`, "print(sum(range(10**6)))", 4},
}

// TestSiblings is E17: what one job does costs another one beside it a bounded share of its speed.
func TestSiblings(t *testing.T) {
	inEveryMode(t, []string{"--max-jobs", "4"}, func(t *testing.T, o *oracle, m mode) {
		for _, s := range storms {
			t.Run(s.name, func(t *testing.T) {
				sibling := func() {
					if res := o.agent.Run(m.in(python(s.sibling, api.Limits{}))); res.Outcome != api.OutcomeOK {
						t.Fatalf("the sibling: %s %q", res.Outcome, res.Stderr)
					}
				}
				alone := quickest(8, sibling)
				storm := begin(t, o.agent, m.in(python(s.storm, api.Limits{Memory: 128 << 20, Disk: 160 << 20, Wall: api.Duration(60 * harness.Slow)})))
				beside := quickest(8, sibling)
				if done := end(t, o.agent, storm.ID); done.Result.Outcome != api.OutcomeCancelled {
					t.Errorf("the storm ended before the test: %s %s", done.Result.Outcome, done.Result.Detail)
				}
				t.Logf("%s: alone %s, beside the storm %s (%.2f)", s.name, alone, beside, float64(beside)/float64(alone))
				if ratio := float64(beside) / float64(alone); ratio > s.times {
					t.Errorf("a job takes %.1f times as long beside it (%s, %s alone), at most %.0f", ratio, beside, alone, s.times)
				}
			})
		}
	})
}
