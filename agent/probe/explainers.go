package probe

import (
	"fmt"
	"slices"
)

// explainers are the layers that hear of a refused call, the better one first. syd needs one of them.
var explainers = []string{"unotify", "ptrace"}

// chooseExplainer settles who needs which explainer: nobody needs one that another can stand in for.
func (r *Report) chooseExplainer() {
	for i, l := range r.Layers {
		if !slices.Contains(explainers, l.Name) {
			continue
		}
		instead := r.otherExplainer(l.Name)
		switch {
		case instead == "":
			r.Layers[i].Needed = []string{"syd"}
		case !l.OK:
			r.Layers[i].Why += "; using " + instead
		}
	}
}

// otherExplainer is the first explainer that works, other than name.
func (r *Report) otherExplainer(name string) string {
	for _, other := range explainers {
		if l, found := r.Layer(other); found && l.OK && other != name {
			return other
		}
	}
	return ""
}

// Explainer is how refused calls are heard of on this machine: "notify" or "ptrace". Wanted is the operator's choice, one of them
// or "auto" for the better one that works; what was chosen by name is never replaced by the other.
func Explainer(wanted string) (string, error) {
	host := settings{root: "/"}
	notify := unotifyLayer(host)
	if wanted != "ptrace" && notify.OK {
		return "notify", nil
	}
	if wanted == "notify" {
		return "", fmt.Errorf("explainer is set to notify: %s; %s, or set it to auto", notify.Why, notify.Fix)
	}
	ptrace := ptraceLayer(host)
	if ptrace.OK {
		return "ptrace", nil
	}
	if wanted == "ptrace" {
		return "", fmt.Errorf("explainer is set to ptrace: %s; %s, or set explainer to auto", ptrace.Why, ptrace.Fix)
	}
	return "", fmt.Errorf("nothing can explain refused calls: unotify: %s; ptrace: %s; %s", notify.Why, ptrace.Why, ptrace.Fix)
}
