package real

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// Prints each link below /usr that leads nowhere, with its target, and each library of the loader's cache that is not there.
const whatIsMissing = `
find /usr -path /usr/share/man -prune -o -path /usr/share/doc -prune -o -xtype l -printf '%p -> %l\n' 2>/dev/null
/sbin/ldconfig -p | sed -n 's/.* => //p' | while read -r library; do [ -e "$library" ] || echo "$library"; done`

// notForJobs begin the targets of links that lead nowhere on purpose: secrets, and settings of the node.
var notForJobs = []string{"/etc/ssl/private", "/etc/environment"}

// TestWholeRuntime is P11: a jail has the node's whole runtime and no selection of files, so no library and no link of what is
// installed is broken inside that is not outside. Packages keep part of themselves in /etc, of which a jail is given only some:
// a new package may need a line in package cowfs.
func TestWholeRuntime(t *testing.T) {
	hosttest.NotSlow(t, "a walk over all of /usr takes too long under emulation")
	outside, err := exec.Command("sh", "-c", whatIsMissing).Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(string(outside), "\n")
	res := harness.Start(t, harness.Options{}).Run(api.JobRequest{
		Command: []string{"sh", "-c", whatIsMissing},
		Limits:  api.Limits{Wall: api.Duration(5 * time.Minute), CPU: api.Duration(time.Minute)},
	})
	if res.Outcome != api.OutcomeOK || res.Truncated {
		t.Fatalf("%s %s %s", res.Outcome, res.Detail, res.Stderr)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(res.Stdout, "\n"), "\n") {
		_, target, _ := strings.Cut(line, " -> ")
		if !slices.Contains(known, line) && !slices.ContainsFunc(notForJobs, func(prefix string) bool { return strings.HasPrefix(target, prefix) }) {
			t.Errorf("missing in the jail: %s", line)
		}
	}
}
