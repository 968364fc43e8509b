package policy

import (
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// base is what container engines allow a container without extra capabilities, by name. Entries with argument rules are
// left out: the table here decides those calls itself (TestBaseConditionsAreDecided).
func base(arch string) map[string]bool {
	allowed := map[string]bool{}
	for _, s := range seccomp.DefaultProfile().Syscalls {
		if s.Action != specs.ActAllow || len(s.Args) > 0 || !applies(s.Includes, arch) {
			continue
		}
		for _, name := range s.Names {
			allowed[name] = true
		}
	}
	return allowed
}

// applies tells whether a group is for every container on the architecture. Groups with a minimum kernel count: the
// minimum is below the oldest kernel that tolbooth runs on.
func applies(f *seccomp.Filter, arch string) bool {
	if f == nil {
		return true
	}
	return len(f.Caps) == 0 && (len(f.Arches) == 0 || slices.Contains(f.Arches, arch))
}
