package agent

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/probe"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// node is this machine as the API shows it: what the probe found at the start, and what the spine meets while it runs. It
// runs jobs when there is a spine, and says why not when there is none.
type node struct {
	cfg    *Config
	found  probe.Report
	built  *built // nil: broken says why
	broken error
	faults *faults // the spine's too
	steps  *steps  // likewise
}

// Run takes a job through its life.
func (n *node) Run(ctx context.Context, w *work, p progress) api.Result {
	if n.built == nil { // the rulebook refuses before; this is for jobs that were admitted in between
		return newResult(w).startFailed(ctx, fmt.Errorf("run a job: %w", n.broken))
	}
	return n.built.Run(ctx, w, p)
}

// words puts the warden's account of a refused call into words, under the policy that the job had.
func (n *node) words(job record, payload []byte) (api.Denial, error) {
	p, err := policy.For(runtime.GOARCH, policy.Change{Extras: job.Extras, Deny: job.Deny})
	if err != nil {
		return api.Denial{}, err
	}
	return wordCall(p, n.offered(), payload)
}

// offered are the extras that a fix may ask for.
func (n *node) offered() []string {
	if n.built == nil {
		return nil
	}
	return offered(n.cfg.Extras, n.built.engine)
}

// report answers from memory.
func (n *node) report() report {
	r := report{
		Kernel: n.found.Kernel, Arch: n.found.Arch, Modes: map[jail.Mode]modeReport{},
		Cgroup:     api.Cgroup{Version: n.found.Cgroup, Controllers: map[string]string{}},
		Filesystem: api.FilesystemHealth{Enabled: n.cfg.FS.Enabled, Bucket: n.cfg.FS.Client},
	}
	for name, why := range n.found.Controllers {
		r.Cgroup.Controllers[name] = "missing: " + why
		if why == "" {
			r.Cgroup.Controllers[name] = n.hierarchy()
		}
	}
	for name := range n.found.Modes {
		r.Modes[jail.Mode(name)] = n.modeReport(name)
	}
	for _, l := range n.found.Layers {
		if concerns := len(l.Needed) == 0 || slices.Contains(l.Needed, string(n.cfg.Backend)); !l.OK && concerns && l.Name != "quota" { // the agent's own accounting holds the disk limit; results say so
			r.Problems = append(r.Problems, api.NodeProblem{What: "layer " + l.Name + " is missing", Why: l.Why, Fix: l.Fix})
		}
	}
	if n.built != nil {
		n.built.addTo(&r)
	}
	n.steps.addTo(&r)
	n.faults.addTo(&r)
	return r
}

// hierarchy says where the working controllers sit.
func (n *node) hierarchy() string {
	if n.found.Cgroup == "v2" {
		return "v2"
	}
	return "v1"
}

func (n *node) modeReport(name string) modeReport {
	m := n.found.Modes[name]
	out := modeReport{Grade: name, Layers: map[string]api.Layer{}}
	for _, l := range n.found.Layers {
		layer := api.Layer{Status: "ok"}
		if !l.OK {
			layer = api.Layer{Status: "missing", Why: l.Why, Fix: l.Fix}
		}
		out.Layers[l.Name] = layer
	}
	var lacks []string
	for _, missing := range m.Missing {
		lacks = append(lacks, missing+": "+out.Layers[missing].Why)
	}
	if len(lacks) == 0 && n.broken != nil {
		lacks = append(lacks, n.broken.Error())
	}
	out.Lacks = strings.Join(lacks, "; ")
	if out.Lacks != "" {
		out.Grade = "none"
	}
	return out
}

// addTo adds what the running spine knows.
func (b *built) addTo(r *report) {
	r.Engine = b.engine
	r.Problems = append(r.Problems, b.problems...)
	f := b.flushes.now()
	r.Filesystem.LastFlushAgeMS, r.Filesystem.UnflushedWorkspaces = f.age, f.unflushed
	if f.unflushed > 0 {
		r.Problems = append(r.Problems, api.NodeProblem{
			What: "work of named workspaces is not in the bucket yet", Why: f.why, Fix: "it is kept on this node and flushed as soon as the bucket takes it; work that lost to another agent's flush waits in parked/ of the state directory",
		})
	}
	r.Figures = figures{
		Quota: b.files.Quota, Prepared: len(b.ready()), Unflushed: f.unflushed, Reclaimed: b.reclaimed, Flushes: f.done, FlushFaults: f.failed, FlushedBytes: f.bytes,
	}
}

// addTo adds what went wrong inside the agent.
func (f *faults) addTo(r *report) {
	for _, v := range f.recent() {
		r.Problems = append(r.Problems, api.NodeProblem{
			What: "the step " + v.Step + " failed", Why: v.Err.Error(), Fix: "last seen " + v.At.UTC().Format(time.RFC3339) + "; the agent's log has the context",
		})
	}
	for _, n := range f.counts() {
		r.Figures.Faults += n
	}
}
