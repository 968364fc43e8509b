package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/cowfs/snapshot"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// TestOverfilled: a job that left too much on disk ends with the limit that it passed, also when it ended before the watch
// looked; another end keeps its own name.
func TestOverfilled(t *testing.T) {
	for _, tc := range []struct {
		name          string
		exit          jail.Exit
		bytes, inodes int64
		want          api.Outcome
		limit         api.Limit
		fix           string
	}{
		{"within", jail.Exit{Cause: jail.CauseExit}, 100, 10, api.OutcomeOK, api.Limit{}, ""},
		{"fast", jail.Exit{Cause: jail.CauseExit}, 101, 10, api.OutcomeDiskLimit, api.Limit{Name: "disk", Value: "100", SetBy: "request"}, `"disk":"200"`},
		{"failed", jail.Exit{Cause: jail.CauseExit, Code: 1}, 101, 10, api.OutcomeDiskLimit, api.Limit{Name: "disk", Value: "100", SetBy: "request"}, `"disk":"200"`},
		{"by a signal", jail.Exit{Cause: jail.CauseSignal, Signal: 25}, 101, 10, api.OutcomeDiskLimit, api.Limit{Name: "disk", Value: "100", SetBy: "request"}, `"disk":"200"`},
		{"files", jail.Exit{Cause: jail.CauseExit}, 100, 11, api.OutcomeDiskLimit, api.Limit{Name: "inodes", Value: "10", SetBy: "node"}, `"inodes":20`},
		{"watch, files", jail.Exit{Cause: jail.CauseDisk}, 100, 11, api.OutcomeDiskLimit, api.Limit{Name: "inodes", Value: "10", SetBy: "node"}, `"inodes":20`},
		{"watch, removed since", jail.Exit{Cause: jail.CauseDisk}, 0, 0, api.OutcomeDiskLimit, api.Limit{Name: "disk", Value: "100", SetBy: "request"}, `"disk":"200"`},
		{"cancelled", jail.Exit{Cause: jail.CauseCancelled}, 101, 11, api.OutcomeCancelled, api.Limit{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &work{Limits: limits{Disk: limit[int64]{100, "request"}, Inodes: limit[int64]{10, "node"}}}
			r := newResult(w)
			r.exited(w, tc.exit)
			r.overfilled(tc.bytes, tc.inodes)
			if r.Outcome != tc.want || (r.Limit == nil) != (tc.limit == api.Limit{}) {
				t.Fatalf("outcome %s, limit %v", r.Outcome, r.Limit)
			}
			if r.Limit == nil {
				return
			}
			if *r.Limit != tc.limit || r.ExitCode != nil || r.Signal != nil {
				t.Errorf("limit %+v, exit code %v, signal %v", *r.Limit, r.ExitCode, r.Signal)
			}
			d := limitDenial(*r.Limit, w.Limits, limits{}, r.Usage)
			if !strings.Contains(string(d.Fix), tc.fix) || d.Errno != "ENOSPC" || strings.Contains(d.What, "  ") {
				t.Errorf("denial %+v, fix %s", d, d.Fix)
			}
		})
	}
}

// TestNetlinkLimit: the one limit that no request can raise says so.
func TestNetlinkLimit(t *testing.T) {
	w := &work{}
	r := newResult(w)
	r.exited(w, jail.Exit{Cause: jail.CauseNetlink})
	if want := (api.Limit{Name: "netlink", Value: "16Mi", SetBy: "node"}); r.Outcome != api.OutcomeMemoryLimit || *r.Limit != want {
		t.Errorf("%s %+v", r.Outcome, r.Limit)
	}
	if d := limitDenial(*r.Limit, w.Limits, limits{}, r.Usage); string(d.Fix) != "null" || d.Errno != "ENOBUFS" || !strings.Contains(d.Why, "close the sockets") {
		t.Errorf("%+v", d)
	}
}

func TestNameLimits(t *testing.T) {
	err := nameLimits(fmt.Errorf("restore: %w: 4 entries", snapshot.ErrTooLarge))
	if !errors.Is(err, snapshot.ErrTooLarge) || !strings.Contains(err.Error(), "limits.disk") {
		t.Error(err)
	}
	other := errors.New("other")
	if nameLimits(nil) != nil || nameLimits(other) != other {
		t.Error("an error of another kind was changed")
	}
}
