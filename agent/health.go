package agent

import (
	"net/http"
	"runtime"
	"slices"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// getHealth answers from memory alone, so that probes are answered while jobs saturate the node.
func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) error {
	h := s.health()
	status := http.StatusServiceUnavailable
	if h.Status == api.StatusOK || h.Status == api.StatusDegraded {
		status = http.StatusOK
	}
	s.answer(w, r, status, h)
	return nil
}

func (s *Server) health() api.Health {
	rep := s.report()
	mode := rep.Modes[s.cfg.Backend]
	h := api.Health{
		Status: api.StatusOK, Version: s.cfg.Version, Node: s.cfg.NodeName,
		Jail:       api.JailHealth{Mode: string(s.cfg.Backend), Layers: map[string]string{}, Grade: mode.Grade},
		Filesystem: rep.Filesystem, Capacity: s.jobs.Capacity(), Problems: rep.Problems,
	}
	for name, layer := range mode.Layers {
		h.Jail.Layers[name] = layer.Status
		if layer.Why != "" {
			h.Jail.Layers[name] += ": " + layer.Why
		}
	}
	if h.Problems == nil {
		h.Problems = []api.NodeProblem{}
	}
	switch {
	case s.draining.Load():
		h.Status = api.StatusDraining
	case mode.Lacks != "":
		h.Status = api.StatusFailing
		h.Problems = append([]api.NodeProblem{{
			What: "no job can run in jail mode " + string(s.cfg.Backend), Why: mode.Lacks, Fix: "`tolbooth doctor` on the node says what to grant",
		}}, h.Problems...)
	case rep.Blocked:
		h.Status = api.StatusFailing
	case len(h.Problems) > 0:
		h.Status = api.StatusDegraded
	}
	return h
}

// lacks says why a mode does not work on this node.
func (s *Server) lacks(mode jail.Mode) string {
	m, ok := s.report().Modes[mode]
	if !ok {
		return "it was not tried on this node"
	}
	return m.Lacks
}

// getNode answers GET /v1/node.
func (s *Server) getNode(w http.ResponseWriter, r *http.Request) error {
	rep := s.report()
	defaults, err := s.cfg.defaultLimits()
	if err != nil {
		return err
	}
	n := api.Node{
		Version: s.cfg.Version, Node: s.cfg.NodeName, Kernel: rep.Kernel, Arch: rep.Arch,
		Backend: string(s.cfg.Backend), MinGrade: string(s.cfg.MinimumGrade()), Explainer: string(rep.Engine), Modes: map[string]api.JailMode{},
		Cgroup: rep.Cgroup, Bases: map[string]api.Base{"host": {Languages: s.rules.languages.wire()}},
		Limits:    api.NodeLimits{Defaults: defaults, Max: s.cfg.Max},
		Network:   s.nodeNetwork(),
		Workspace: api.NodeWorkspace{Named: s.cfg.FS.Enabled, Bucket: s.cfg.FS.Client},
		Policy:    nodePolicy(s.cfg.Extras, rep.Engine),
		Env:       defaultEnv(cpuCount(defaults.CPUs, runtime.NumCPU())), Capacity: s.jobs.Capacity(),
		Request: api.RequestLimits{MaxBody: s.cfg.MaxBody, MaxFiles: maxFiles, MaxLabels: maxLabels, MaxWait: api.Duration(maxWait)},
	}
	for mode, m := range rep.Modes {
		n.Modes[string(mode)] = api.JailMode{Available: m.Lacks == "", Grade: m.Grade, Layers: m.Layers}
	}
	s.answer(w, r, http.StatusOK, n)
	return nil
}

func (s *Server) nodeNetwork() api.NodeNetwork {
	n := api.NodeNetwork{Modes: []string{"none"}, Internal: []string{}, Permit: append([]string{}, s.cfg.Network.Permit...)}
	if s.cfg.Network.Open {
		n.Modes = []string{"none", "allow", "open"}
	}
	if len(n.Permit) > 0 {
		n.Modes = slices.DeleteFunc(n.Modes, func(mode string) bool { return mode == "open" })
	}
	for _, p := range s.cfg.Network.Internal {
		n.Internal = append(n.Internal, p.String())
	}
	return n
}
