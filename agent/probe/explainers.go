package probe

import "fmt"

// Explainers are the layers that hear of a refused call, as this machine has them. syd needs one of the two.
type Explainers struct{ notify, ptrace Layer }

// FindExplainers tries both.
func FindExplainers() Explainers { return findExplainers(settings{root: "/"}) }

func findExplainers(host settings) Explainers {
	return Explainers{
		notify: one("unotify", func() Layer { return unotifyLayer(host) }),
		ptrace: one("ptrace", func() Layer { return ptraceLayer(host) }),
	}
}

// Choose is how refused calls are heard of: "notify" or "ptrace". Wanted is the operator's choice, one of them or "auto" for
// the better one that works; what was chosen by name is never replaced by the other.
func (e Explainers) Choose(wanted string) (string, error) {
	switch {
	case e.notify.hung: // a kernel that loads no filter runs no jail, whoever explains
		return "", fmt.Errorf("load a filter with a listener: %s; %s", e.notify.Why, e.notify.Fix)
	case e.ptrace.hung:
		return "", fmt.Errorf("seize a child: %s; %s", e.ptrace.Why, e.ptrace.Fix)
	case wanted != "ptrace" && e.notify.OK:
		return "notify", nil
	case wanted != "notify" && e.ptrace.OK:
		return "ptrace", nil
	case wanted == "notify":
		return "", fmt.Errorf("explainer is set to notify: %s; %s, or set it to auto", e.notify.Why, e.notify.Fix)
	case wanted == "ptrace":
		return "", fmt.Errorf("explainer is set to ptrace: %s; %s, or set it to auto", e.ptrace.Why, e.ptrace.Fix)
	}
	return "", fmt.Errorf("nothing can explain refused calls: unotify: %s; ptrace: %s; %s", e.notify.Why, e.ptrace.Why, e.ptrace.Fix)
}

// layers are both for a report: nobody needs one that the other can stand in for.
func (e Explainers) layers() []Layer {
	stoodInFor := func(l, other Layer) Layer {
		l.Needed = []string{}
		switch {
		case !other.OK:
			l.Needed = []string{"syd"}
		case !l.OK:
			l.Why += "; using " + other.Name
		}
		return l
	}
	return []Layer{stoodInFor(e.notify, e.ptrace), stoodInFor(e.ptrace, e.notify)}
}
