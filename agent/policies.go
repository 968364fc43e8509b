package agent

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// policy resolves what the request wants of the system call policy. Extras the node's operator must have listed; denials only
// tighten. What cannot be enforced is refused, since a job that believes in a wall must have it.
func (b *rulebook) policy(r api.Policy, mode jail.Mode) (policy.Policy, error) {
	change := policy.Change{Extras: r.Extras, Deny: r.Deny}
	if change.Empty() {
		return b.usual, nil
	}
	p, err := policy.For(runtime.GOARCH, change)
	if wrong, ok := errors.AsType[*policy.ChangeError](err); ok {
		field := "policy.extras"
		if wrong.Deny {
			field = "policy.deny"
		}
		return p, refuse(api.ClassInvalid, field, "%s %s", quoted(wrong.Name), wrong.Why).hint("GET /v1/node lists the names, with a sentence each")
	}
	if err != nil {
		return p, err
	}
	for _, name := range p.Change().Extras {
		if err := b.extra(name, mode); err != nil {
			return p, err
		}
	}
	for _, name := range p.Change().Deny {
		if err := b.deny(name, mode); err != nil {
			return p, err
		}
	}
	return p, nil
}

// extra says why a job may not have an extra.
func (b *rulebook) extra(name string, mode jail.Mode) error {
	const field = "policy.extras"
	if !slices.Contains(b.cfg.Extras, name) {
		return refuse(api.ClassForbidden, field, "this node does not permit the extra %q", name).
			hint("its operator can, by adding it to the key extras; otherwise leave it out")
	}
	if mode != jail.Syd {
		return refuse(api.ClassUnsupported, field, "mode %q has no system call filter that the extra %q could open", mode, name).
			hint("leave it out, or use the mode syd")
	}
	if why := lacking(name, b.node().Engine); why != "" {
		return refuse(api.ClassUnsupported, field, "the extra %q does not work on this node: %s", name, why)
	}
	return nil
}

// deny says why something cannot be taken away from a job.
func (b *rulebook) deny(name string, mode jail.Mode) error {
	const field = "policy.deny"
	if mode != jail.Syd { // execve_outside_base needs it too, for memory files
		return refuse(api.ClassUnsupported, field, "mode %q has no system call filter, so it cannot refuse %q", mode, name).
			hint("use the mode syd")
	}
	if layer := b.node().Modes[mode].Layers["landlock"]; name == policy.DenyExecOutsideBase && layer.Status == "missing" {
		return refuse(api.ClassUnsupported, field, "%q needs Landlock: %s", name, layer.Why).hint("%s", layer.Fix)
	}
	return nil
}

// lacking says why an extra cannot work on this node, whoever permits it; empty: it can.
func lacking(extra string, engine jail.Engine) string {
	switch {
	case extra == policy.Ptrace && engine != jail.Notify:
		return "programs are traced by the warden here (key explainer), and a program has one tracer"
	case extra == policy.RawSocket && engine != jail.Notify:
		return "only the explainer notify can hand the socket over (key explainer)"
	case extra == policy.IOURing:
		// 1: for processes without CAP_SYS_ADMIN outside of a group; 2: for all (sysctl/kernel.rst)
		if v := setting("/proc/sys/kernel/io_uring_disabled"); v == "1" || v == "2" {
			return "the sysctl kernel.io_uring_disabled is " + v
		}
	case extra == policy.UserNS:
		if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
			return "the sysctl kernel.apparmor_restrict_unprivileged_userns is 1"
		}
		if setting("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
			return "the sysctl kernel.unprivileged_userns_clone is 0"
		}
	}
	return ""
}

// setting is a kernel setting; empty where the kernel has none of that name.
func setting(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// offered are the extras that a request to this node may have.
func offered(permitted []string, engine jail.Engine) []string {
	return slices.DeleteFunc(slices.Clone(permitted), func(name string) bool { return lacking(name, engine) != "" })
}

// nodePolicy is what GET /v1/node says of policies.
func nodePolicy(permitted []string, engine jail.Engine) api.NodePolicy {
	n := api.NodePolicy{Extras: map[string]api.Extra{}, Deny: map[string]string{}}
	for _, x := range policy.Extras() {
		e := api.Extra{What: x.Why}
		switch why := lacking(x.Name, engine); {
		case why != "":
			e.Why = why
		case !slices.Contains(permitted, x.Name):
			e.Why = "the node's key extras does not list it"
		default:
			e.Available = true
		}
		n.Extras[x.Name] = e
	}
	for _, d := range policy.Denials() {
		n.Deny[d.Name] = d.Why
	}
	return n
}
