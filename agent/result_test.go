package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
			r.overfilled(tc.bytes, tc.inodes, false)
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

// TestOverfilledUnderQuota: there a write is refused rather than a job ended, so a job that fails with its disk full ends with the
// limit; one that succeeds, or fails with room left, keeps its own end.
func TestOverfilledUnderQuota(t *testing.T) {
	const disk = 100 << 20
	failed := jail.Exit{Cause: jail.CauseExit, Code: 1}
	for _, tc := range []struct {
		name          string
		exit          jail.Exit
		bytes, inodes int64
		limit         string
	}{
		{"full", failed, disk, 5, "disk"},
		{"full but for the last write", failed, disk - 4<<20 + 1, 5, "disk"},
		{"killed by SIGBUS", jail.Exit{Cause: jail.CauseSignal, Signal: 7}, disk - 4096, 5, "disk"},
		{"no file left", failed, 100, 10, "inodes"},
		{"room left", failed, disk - 4<<20, 9, ""},
		{"well", jail.Exit{Cause: jail.CauseExit}, disk, 10, ""},
		{"another limit", jail.Exit{Cause: jail.CauseMemory}, disk, 10, "memory"},
	} {
		w := &work{Limits: limits{Disk: limit[int64]{disk, "request"}, Inodes: limit[int64]{10, "node"}, Memory: limit[int64]{1 << 30, "node"}}}
		r := newResult(w)
		r.exited(w, tc.exit)
		r.overfilled(tc.bytes, tc.inodes, true)
		if name := nameOf(r.Limit); name != tc.limit || (r.Outcome == api.OutcomeDiskLimit) != (name == "disk" || name == "inodes") {
			t.Errorf("%s: %s by %q, want %q", tc.name, r.Outcome, name, tc.limit)
		}
		if r.Limit != nil && (r.ExitCode != nil || r.Signal != nil) {
			t.Errorf("%s: exit code %v, signal %v beside a limit", tc.name, r.ExitCode, r.Signal)
		}
	}
}

func nameOf(l *api.Limit) string {
	if l == nil {
		return ""
	}
	return l.Name
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

// TestDetailLosesNothing: what went wrong beside the job is told after why it ended, whichever was known first.
func TestDetailLosesNothing(t *testing.T) {
	stopped := errors.New("cancelled by request")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	for _, c := range []struct {
		name string
		exit jail.Exit
		want string
	}{
		{"limit", jail.Exit{Cause: jail.CauseWall}, "the wall limit of 2s (set by: request) ended the job\nread the usage: gone\nflush: no bucket"},
		{"cancelled", jail.Exit{Cause: jail.CauseCancelled}, "cancelled while it ran: cancelled by request\nread the usage: gone\nflush: no bucket"},
		{"lost", jail.Exit{}, "the warden of the jail died; everything in the jail was killed, and how far the command came is not known\nread the usage: gone\nflush: no bucket"},
		{"well", jail.Exit{Cause: jail.CauseExit}, "read the usage: gone\nflush: no bucket"},
	} {
		w := &work{Limits: limits{Wall: limit[time.Duration]{2 * time.Second, "request"}}}
		r := newResult(w)
		r.exited(w, c.exit)
		r.problem(errors.New("read the usage: gone"))
		r.because(ctx)
		r.problem(errors.New("flush: no bucket"))
		if got := r.result().Detail; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
