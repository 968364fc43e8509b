package agent

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// evidence is everything that a run left from which its refusals can be told.
type evidence struct {
	policy  policy.Policy
	extras  []string // of the policy, that a fix may ask for
	most    limits   // the node's caps
	quota   bool     // the file system itself held the disk limits
	exit    jail.Exit
	printed collected
	network []api.Denial
}

// denied lists every refusal of the run: system calls, connections, files, the signal that ended it, and limits. Late are
// those that nobody could tell while the command ran.
func (r *outcome) denied(e evidence) (late []api.Denial) {
	calls, err := wordCalls(e.policy, e.extras, e.printed.Calls)
	if err != nil {
		r.problem(fmt.Errorf("word the refused calls: %w", err))
	}
	if n := e.exit.Suppressed; n > 0 {
		calls = append(calls, suppressedCalls(n, r.Usage.WallMS))
	}
	facts := fileFacts{
		limits: r.limits, most: e.most, peak: r.Usage.MemoryPeakBytes, inodes: r.inodes, quota: e.quota, atMS: r.Usage.WallMS,
		baseExecOnly: slices.Contains(e.policy.Change().Deny, policy.DenyExecOutsideBase),
		callsRefused: slices.ContainsFunc(calls, func(d api.Denial) bool { return d.Errno == "EPERM" }),
	}
	limit := r.limitDenials(e.most)
	for _, d := range facts.explain(e.printed.Stdout, e.printed.Stderr) {
		if !hasRule(limit, d.Rule) { // what the kernel saw says it better
			late = append(late, d)
		}
	}
	switch r.Outcome {
	case api.OutcomeSignal:
		late = append(late, facts.signalled(unix.Signal(e.exit.Signal)))
	case api.OutcomeOK, api.OutcomeExit:
		late = append(late, facts.children(r.ExitCode, e.printed.Stderr)...)
	}
	late = append(late, limit...)
	r.Denials = slices.Concat(r.Denials, calls, e.network, late)
	return late
}

// limitDenials explains the limit that ended the job, and those that the kernel enforced although it went on: a fork that
// was refused, a process that was killed for memory.
func (r *outcome) limitDenials(most limits) []api.Denial {
	var list []api.Denial
	if r.Limit != nil {
		list = append(list, limitDenial(*r.Limit, r.limits, most, r.Usage))
	}
	for _, l := range []struct {
		hits int64
		api.Limit
	}{
		{r.kernel.OOMKills, api.Limit{Name: "memory", Value: quantity(r.limits.Memory.Value), SetBy: r.limits.Memory.SetBy}},
		{r.kernel.PidsRefused, api.Limit{Name: "pids", Value: wholeNumber(r.limits.Pids.Value), SetBy: r.limits.Pids.SetBy}},
	} {
		if l.hits > 0 && !hasRule(list, "limit."+l.Name) {
			d := limitDenial(l.Limit, r.limits, most, r.Usage)
			d.Count = l.hits
			list = append(list, d)
		}
	}
	return list
}

func hasRule(list []api.Denial, rule string) bool {
	return slices.ContainsFunc(list, func(d api.Denial) bool { return d.Rule == rule })
}

// because says why a run that was cancelled was, and that a kill for memory was the node's need rather than the job's limit.
func (r *outcome) because(ctx context.Context) {
	switch r.Outcome {
	case api.OutcomeCancelled:
		if cause := context.Cause(ctx); cause != nil {
			r.Detail = "cancelled while it ran: " + cause.Error()
		}
	case api.OutcomeMemoryLimit:
		if short := nodeShort(*r.Limit, r.limits, r.Usage); short != "" {
			r.Detail = short
		}
	}
}
