package probe

import "slices"

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
