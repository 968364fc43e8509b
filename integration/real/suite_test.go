package real

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// suite is somebody else's test suite. What passes outside a jail under the same conditions must pass inside.
type suite struct {
	files     []api.File
	command   func(tests []string) []string // none: all tests
	parse     func(stdout string) map[string]outcome
	atLeast   int // tests, so that a suite that runs none does not pass
	explained []difference
}

// outcome is how one test ended.
type outcome struct {
	status string // passed, skipped or failed
	said   string // its message
}

// difference is a test that passes outside and not inside, on purpose.
type difference struct {
	tests string // pattern of path.Match; a name's dots are slashes to it
	said  string // expression that the test's message matches, so that no other fault hides behind this one
	why   string
}

// compare runs the suite in a jail, and outside what did not pass. A test that passes when it is run again by itself had too
// little time the first time: the suites wait for threads and processes in fractions of a second.
func (s suite) compare(t *testing.T, a *harness.Agent, compares func(name string, o outcome) bool) {
	inside := s.inside(t, a, nil)
	if n := len(inside); n < s.atLeast {
		t.Fatalf("only %d tests ran inside", n)
	}
	odd := notPassed(inside, compares)
	if len(odd) == 0 {
		return
	}
	outside := s.outside(t, odd)
	var left []string
	for _, name := range odd {
		o, known := outside[name]
		switch {
		case known && o.status != "passed": // it does not pass outside either
		case s.explains(name, inside[name]):
		default:
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return
	}
	again := s.inside(t, a, left)
	for _, name := range left {
		o, known := again[name]
		if known && o.status == "passed" {
			t.Logf("%s passed when it was run again: first it %s: %s", name, inside[name].status, inside[name].said)
			continue
		}
		t.Errorf("%s passes outside and not inside: %s: %s", name, o.status, o.said)
	}
}

func (s suite) explains(name string, o outcome) bool {
	for _, d := range s.explained {
		matched, err := path.Match(strings.ReplaceAll(d.tests, ".", "/"), strings.ReplaceAll(name, ".", "/"))
		if err == nil && matched && regexp.MustCompile(d.said).MatchString(o.said) {
			return true
		}
	}
	return false
}

func notPassed(tests map[string]outcome, compares func(name string, o outcome) bool) []string {
	var names []string
	for name, o := range tests {
		if o.status != "passed" && compares(name, o) {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// everything compares skipped tests too.
func everything(string, outcome) bool { return true }

// room is what a suite gets inside: enough for every test of it.
var room = api.Limits{
	Wall: api.Duration(25 * time.Minute), CPU: api.Duration(50 * time.Minute), CPUs: 2, Pids: 2048, OpenFiles: openFiles,
	Memory: api.Quantity(4 << 30), Shm: api.Quantity(1 << 30), Output: api.Quantity(16 << 20), Disk: api.Quantity(8 << 30), Inodes: 500_000,
}

func (s suite) inside(t *testing.T, a *harness.Agent, tests []string) map[string]outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	start := time.Now()
	job, err := a.Client.Run(ctx, api.JobRequest{Command: s.command(tests), Files: s.files, Limits: room})
	if err != nil {
		t.Fatalf("run the suite inside: %v", err)
	}
	res := job.Result
	if res == nil || res.Outcome != api.OutcomeOK {
		t.Fatalf("the suite inside: %+v", job)
	}
	found := s.parse(res.Stdout)
	report(t, "inside", found, start)
	return found
}

func report(t *testing.T, where string, tests map[string]outcome, start time.Time) {
	t.Helper()
	count := map[string]int{}
	for _, o := range tests {
		count[o.status]++
	}
	t.Logf("%s: %v in %v", where, count, time.Since(start).Round(time.Second))
}

// tabbed parses lines of outcome, name and message with tabs between.
func tabbed(stdout string) map[string]outcome {
	tests := map[string]outcome{}
	for line := range strings.Lines(stdout) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(fields) == 3 && slices.Contains([]string{"passed", "skipped", "failed"}, fields[0]) {
			tests[fields[1]] = outcome{fields[0], fields[2]}
		}
	}
	return tests
}
