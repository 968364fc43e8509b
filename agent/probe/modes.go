package probe

import "slices"

// Mode is one jail mode on this machine.
type Mode struct {
	Available bool     `json:"available"`
	Missing   []string `json:"missing"` // layers that it does not run without
	Without   []string `json:"without"` // layers that would make it stronger
}

// needs lists the layers that a jail mode does not run without. What is in neither list is a bonus: landlock is a second
// wall behind the mount view, quota a faster one behind the agent's own accounting, masquerade and forwarding give jobs
// a way beyond this node, core scheduling keeps jails off each other's cores. syd also needs an explainer (explainers.go).
//
// Contract: syd is syscall filtering, namespaces, and its own network jail, so each of the three is needed; and no mode
// runs without limits. Minimal takes the same way with chroot instead of filter, tracer and private network.
var needs = map[string][]string{
	"syd": {
		"capabilities", "userns", "pidns", "mountns", "netns", "ipcns", "utsns", "cgroupns",
		"seccomp", "cgroup", "clone-into-cgroup", "mount-api", "pivot-root", "overlay", "openat2", "pidfd",
		"veth", "ebpf-egress", "connect-hooks",
	},
	"minimal": {
		"userns", "pidns", "mountns", "ipcns", "utsns", "cgroupns",
		"cgroup", "clone-into-cgroup", "mount-api", "overlay", "openat2", "pidfd",
	},
}

func neededBy(layer string) []string {
	modes := []string{}
	for _, mode := range []string{"syd", "minimal"} {
		for _, name := range needs[mode] {
			if name == layer {
				modes = append(modes, mode)
			}
		}
	}
	return modes
}

func modes(layers []Layer) map[string]Mode {
	result := map[string]Mode{}
	for mode := range needs {
		m := Mode{Missing: []string{}, Without: []string{}}
		for _, l := range layers {
			switch {
			case l.OK:
			case slices.Contains(l.Needed, mode):
				m.Missing = append(m.Missing, l.Name)
			case len(l.Needed) == 0:
				m.Without = append(m.Without, l.Name)
			}
		}
		m.Available = len(m.Missing) == 0
		result[mode] = m
	}
	return result
}
