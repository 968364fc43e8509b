package probe

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Report is what was found out.
type Report struct {
	Kernel       string            `json:"kernel"`
	Arch         string            `json:"arch"`
	Layers       []Layer           `json:"layers"`
	Modes        map[string]Mode   `json:"modes"`
	Capabilities []Capability      `json:"capabilities"`
	Cgroup       string            `json:"cgroup"`      // v2 or hybrid
	Controllers  map[string]string `json:"controllers"` // empty when it works, else why it is missing
	Languages    []Language        `json:"languages"`
}

// Layer is one thing that jails are made of, and whether this machine has it.
type Layer struct {
	Name   string   `json:"name"`
	OK     bool     `json:"ok"`
	Found  string   `json:"found,omitzero"` // what there is, when that says more than ok
	Why    string   `json:"why,omitzero"`   // what is missing, with the error of the kernel
	Fix    string   `json:"fix,omitzero"`   // what to do about it
	Needed []string `json:"needed"`         // jail modes that do not run without it

	hung bool // the kernel did not answer
}

// Options say what to look at.
type Options struct {
	StateDir string // where the agent keeps its state; it, or its nearest parent that exists, is tried

	// Egress is the hook by which the caller has its egress programs on veths, when it has them loaded already; empty: they
	// are loaded and attached here, which is most of what a probe costs.
	Egress string

	// Explainers are those that the caller has found already; nil: they are tried here.
	Explainers *Explainers
}

// Run probes this machine.
func Run(ctx context.Context, o Options) Report { return run(ctx, o, settings{root: "/"}) }

func run(ctx context.Context, o Options, host settings) Report {
	r := Report{Kernel: kernelRelease(), Arch: runtime.GOARCH}
	languages := make(chan []Language, 1)
	go func() { languages <- Languages(ctx) }()

	r.Capabilities = capabilities()
	r.add(capabilityLayer(r.Capabilities))
	r.add(ask(patience, func() []Layer { return namespaceLayers(host) }, namespaceNames()...)...)
	r.add(one("seccomp", func() Layer { return seccompLayer(host) }))
	if o.Explainers == nil {
		found := findExplainers(host)
		o.Explainers = &found
	}
	r.Layers = append(r.Layers, o.Explainers.layers()...)
	groups, answered := within(patience, cgroupLayer)
	if !answered {
		groups.layer = unanswered("cgroup", patience)
	}
	r.Cgroup, r.Controllers = groups.Version, groups.Controllers
	r.add(groups.layer)
	r.add(one("clone-into-cgroup", birthLayer))
	disk, answered := within(patience, func() trees { return probeTrees(o.StateDir) })
	if !answered {
		disk.err = fmt.Errorf("the kernel did not answer within %s", patience)
	}
	r.add(one("mount-api", mountLayer), one("pivot-root", pivotLayer), overlayLayer(disk), baseLayer(disk), openat2Layer(), pidfdLayer())
	r.add(ask(patience, func() []Layer { return networkLayers(o.Egress) }, "connect-hooks", "ebpf-egress", "veth", "masquerade")...)
	r.add(forwardLayer(host), landlockLayer(), one("core-scheduling", func() Layer { return coreSchedulingLayer(host) }), quotaLayer(disk), filesLayer())

	r.Modes = modes(r.Layers)
	r.Languages = <-languages
	return r
}

// Layer is the layer of a name; ok is false when there is none.
func (r *Report) Layer(name string) (l Layer, ok bool) {
	for _, l := range r.Layers {
		if l.Name == name {
			return l, true
		}
	}
	return Layer{}, false
}

func (r *Report) add(layers ...Layer) {
	for _, l := range layers {
		l.Needed = neededBy(l.Name)
		r.Layers = append(r.Layers, l)
	}
}

func ok(name, found string) Layer         { return Layer{Name: name, OK: true, Found: found} }
func missing(name, why, fix string) Layer { return Layer{Name: name, Why: why, Fix: fix} }

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown: " + err.Error()
	}
	return unix.ByteSliceToString(u.Release[:])
}
