package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
)

// outcome is a result in the making.
type outcome struct {
	api.Result
	limits limits
	timer  stopwatch
	notes  []error      // what went wrong beside the job itself; result tells
	kernel cgroup.Usage // what the kernel counted
	inodes int64        // files that the job left
}

// newResult starts the clocks of one job's result.
func newResult(w *work) *outcome {
	r := &outcome{limits: w.Limits, timer: stopwatch{last: time.Now()}}
	r.Outputs, r.Denials = []api.Output{}, []api.Denial{}
	r.Isolation = api.Isolation{Mode: string(w.Mode), Grade: "none", Layers: []string{}, Missing: []string{}, Extras: []string{}}
	r.Effective = effective(w)
	return r
}

// stopwatch adds the time since the last step to a field, in microseconds.
type stopwatch struct{ last time.Time }

func (s *stopwatch) step(us *int64) {
	now := time.Now()
	*us += now.Sub(s.last).Microseconds()
	s.last = now
}

// startFailed ends a job whose command never ran; err begins with the step.
func (r *outcome) startFailed(ctx context.Context, err error) api.Result {
	r.Outcome, r.Detail = api.OutcomeStartFailed, err.Error()
	if ctx.Err() != nil {
		r.Outcome, r.Detail = api.OutcomeCancelled, "cancelled before the command ran: "+context.Cause(ctx).Error()
		if errors.Is(err, errNoAnswer) {
			r.problem(err)
		}
	}
	return r.result()
}

// problem notes something that went wrong beside the job itself.
func (r *outcome) problem(err error) { r.notes = append(r.notes, err) }

// result is what is answered: the detail says why the job ended so, and then what else went wrong, a line each.
func (r *outcome) result() api.Result {
	res := r.Result
	var lines []string
	if res.Detail != "" {
		lines = append(lines, res.Detail)
	}
	for _, err := range r.notes {
		lines = append(lines, err.Error())
	}
	res.Detail = strings.Join(lines, "\n")
	return res
}

// exited translates the warden's account of the end.
func (r *outcome) exited(w *work, e jail.Exit) {
	r.StdoutBytes, r.StderrBytes, r.Truncated = e.StdoutBytes, e.StderrBytes, e.Truncated
	r.Usage.WallMS, r.Usage.OrphansKilled = e.RunUS/1000, e.Orphans
	l := w.Limits
	switch e.Cause {
	case jail.CauseExit:
		r.Outcome = api.OutcomeOK
		if e.Code != 0 {
			r.Outcome = api.OutcomeExit
		}
		r.ExitCode = &e.Code
	case jail.CauseSignal:
		r.Outcome = api.OutcomeSignal
		name := signalName(unix.Signal(e.Signal))
		r.Signal = &name
	case jail.CauseWall:
		r.limited(api.OutcomeWallLimit, "wall", api.Duration(l.Wall.Value).String(), l.Wall.SetBy)
	case jail.CauseCPU:
		r.limited(api.OutcomeCPULimit, "cpu", api.Duration(l.CPU.Value).String(), l.CPU.SetBy)
	case jail.CauseMemory:
		r.limited(api.OutcomeMemoryLimit, "memory", quantity(l.Memory.Value), l.Memory.SetBy)
	case jail.CausePids:
		r.limited(api.OutcomePidsLimit, "pids", wholeNumber(l.Pids.Value), l.Pids.SetBy)
	case jail.CauseNetlink:
		r.limited(api.OutcomeMemoryLimit, "netlink", quantity(jail.NetlinkBytes), "node")
	case jail.CauseOutput:
		r.limited(api.OutcomeOutputLimit, "output", quantity(l.Output.Value), l.Output.SetBy)
	case jail.CauseDisk:
		r.limited(api.OutcomeDiskLimit, "disk", quantity(l.Disk.Value), l.Disk.SetBy)
	case jail.CauseCancelled:
		r.Outcome = api.OutcomeCancelled
	case jail.CauseStartFailed:
		r.Outcome, r.Detail = api.OutcomeStartFailed, e.Step+": "+e.Error
	default:
		r.Outcome, r.Detail = api.OutcomeAgentLost, "the warden of the jail died; everything in the jail was killed, and how far the command came is not known"
	}
}

// unreported says so when no account of the end came; err is why, or nil.
func (r *outcome) unreported(err error) {
	switch {
	case errors.Is(err, errNoAnswer):
		r.Detail = "the warden of the jail did not report how the command ended"
		r.problem(err)
	case err != nil:
		r.problem(fmt.Errorf("wait for the warden: %w", err))
	}
}

func (r *outcome) limited(o api.Outcome, name, value, setBy string) {
	r.Outcome = o
	r.Limit = &api.Limit{Name: name, Value: value, SetBy: setBy}
	r.Detail = fmt.Sprintf("the %s limit of %s (set by: %s) ended the job", name, value, setBy)
}

// overfilled names the limit of a job that left more on disk than it may. The watch looks at a running job now and then; a
// job that ended between two looks is held to the same limit here. Under a quota no job gets so far: one that failed with
// nothing left to write into failed because of that.
func (r *outcome) overfilled(bytes, inodes int64, quota bool) {
	switch r.Outcome {
	case api.OutcomeOK, api.OutcomeExit, api.OutcomeSignal, api.OutcomeDiskLimit:
	default:
		return
	}
	l, failed := r.limits, r.Outcome == api.OutcomeExit || r.Outcome == api.OutcomeSignal
	room := int64(0) // that a job may leave which has no room
	if quota && failed {
		room = min(lastWrite, l.Disk.Value/16)
	}
	switch {
	case bytes > l.Disk.Value-room:
		r.limited(api.OutcomeDiskLimit, "disk", quantity(l.Disk.Value), l.Disk.SetBy)
	case inodes > l.Inodes.Value, quota && failed && inodes == l.Inodes.Value:
		r.limited(api.OutcomeDiskLimit, "inodes", wholeNumber(l.Inodes.Value), l.Inodes.SetBy)
	default:
		return
	}
	r.ExitCode, r.Signal = nil, nil
}

// lastWrite is the most that the last write can leave free when a quota refuses it: xfs reserves so much at once, all or nothing.
const lastWrite = 4 << 20

// used reads what the job used from where the kernel counted it. The warden, outside the job's cgroup, tells its own share.
func (r *outcome) used(e jail.Exit, p *place, t tree, link plug) {
	if u, err := p.group.Usage(); err != nil {
		r.problem(fmt.Errorf("read the cgroup's usage: %w", err))
	} else {
		r.kernel = u
		u.CPU += time.Duration(e.WardenUS) * time.Microsecond
		r.Usage.CPUMS, r.Usage.MemoryPeakBytes, r.Usage.PidsPeak = u.CPU.Milliseconds(), u.MemoryPeakBytes, u.PidsPeak
	}
	if bytes, inodes, err := t.DiskUsage(context.Background()); err != nil {
		r.problem(fmt.Errorf("measure the disk use: %w", err))
	} else {
		r.Usage.DiskBytes, r.inodes = bytes, inodes
		r.overfilled(bytes, inodes, t.Quota())
	}
	net, err := link.Traffic()
	if err != nil {
		r.problem(err)
	}
	r.Usage.NetTxBytes, r.Usage.NetRxBytes, r.Usage.Flows, r.Usage.FlowsLeftOut = net.tx, net.rx, net.flows, net.leftOut
}

// unscratch removes the request's code again, so that it is no part of the outputs and of the workspace.
func (r *outcome) unscratch(w *work, t tree) {
	for _, f := range w.Files {
		if !f.Scratch {
			continue
		}
		if err := t.Remove(f.Path); err != nil {
			r.problem(fmt.Errorf("take the request's code out of the workspace: %w", err))
		}
	}
}

// Output files are returned with the result up to these sizes; beyond, they are listed with the reason.
const (
	maxOutputFile  = 1 << 20
	maxOutputTotal = 8 << 20
)

// collectOutputs gathers the files that the request's globs match, through the tree's own descriptor.
func (r *outcome) collectOutputs(w *work, t tree) {
	if len(w.Outputs) == 0 {
		return
	}
	found, err := t.Glob(context.Background(), w.Outputs)
	if err != nil {
		r.problem(fmt.Errorf("look for outputs: %w", err))
	}
	left := int64(maxOutputTotal)
	for _, f := range found {
		out := api.Output{Path: f.Path, Bytes: f.Size, Mode: fmt.Sprintf("%#o", f.Mode&fs.ModePerm)}
		switch {
		case f.Size > maxOutputFile:
			out.Omitted = fmt.Sprintf("larger than %s", quantity(maxOutputFile))
		case f.Size > left:
			out.Omitted = fmt.Sprintf("the outputs together are larger than %s", quantity(maxOutputTotal))
		default:
			data, _, err := t.ReadFile(f.Path, f.Size)
			if err != nil {
				out.Omitted = err.Error()
				break
			}
			left -= int64(len(data))
			out.Content, out.Encoding = encodeBytes(data)
		}
		r.Outputs = append(r.Outputs, out)
	}
}

// flush publishes the workspace. When that fails the work is parked on disk and tried again later; the result says so.
func (r *outcome) flush(s *spine, t tree, w *work) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	id, err := t.Flush(ctx, w.ID)
	if err == nil {
		r.Snapshot = &id
		return
	}
	s.faults.add("flush", err)
	later := "its files stay on this node and are flushed as soon as that works"
	if errors.Is(err, cowfs.ErrConflict) {
		later = "another agent flushed it while this job ran, and its work was kept; this job's files stay on this node, in parked/ of the agent's state directory, until an operator decides"
	}
	r.problem(fmt.Errorf("the workspace %q was not flushed: %w; %s", w.Workspace, errors.Join(err, t.Park(err)), later))
}

// printed takes what the command printed, and the refused calls, from the spool.
func (r *outcome) printed(w *work) collected {
	c, err := collect(w.SpoolPath, w.Limits.Output.Value)
	if err != nil {
		r.problem(err)
	}
	c.fill(&r.Result)
	return c
}

// mustJSON encodes a value of ours that cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
