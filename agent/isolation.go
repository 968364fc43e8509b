package agent

import (
	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// isolationLayers are all layers that a run can have, in the order in which results list them.
var isolationLayers = []string{"userns", "pidns", "netns", "mountns", "seccomp", "ptrace", "unotify", "landlock", "base-overlay", "ebpf-egress", "cgroup", "quota"}

// isolation says which layers a run really had. A jail starts with every namespace of its plan, its filter and its tracer, or it
// does not start at all; the rest is what the kernel was found to have.
func (s *spine) isolation(w *work, e jail.Exit) api.Isolation {
	syd := w.Mode == jail.Syd
	has := map[string]bool{
		"userns": true, "pidns": true, "mountns": true, "cgroup": true,
		"netns":        !w.hostNetwork(),
		"ebpf-egress":  s.egress != "" && !w.hostNetwork(),
		"seccomp":      syd,
		"ptrace":       e.ExitKill,
		"unotify":      syd && s.engine == jail.Notify,
		"landlock":     e.Landlock > 0,
		"base-overlay": s.files.OwnBase,
		"quota":        s.files.Quota, // else the agent counts what the job holds while it runs
	}
	out := api.Isolation{Mode: string(w.Mode), Grade: string(w.Mode), Layers: []string{}, Missing: []string{}, Extras: append([]string{}, w.Policy.Change().Extras...)}
	for _, l := range isolationLayers {
		switch {
		case has[l]:
			out.Layers = append(out.Layers, l)
		case l == "unotify" && syd: // ptrace explains
		default:
			out.Missing = append(out.Missing, l)
		}
	}
	if e.CoreSched { // never missing: a machine whose cores run one thread at once needs none, and GET /v1/node says which it is
		out.Layers = append(out.Layers, "core-scheduling")
	}
	return out
}
