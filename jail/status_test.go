package jail

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// settled are the lines of /proc/self/status that tell what a process may do and how it is set up. The others number it, or count
// memory, threads and switches.
var settled = []string{
	"Umask", "Uid", "Gid", "Groups", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd",
	"CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "CoreDumping", "Cpus_allowed_list",
}

// TestStatus holds what the kernel says about the program, to the line, against testdata/status-MODE.golden.
func TestStatus(t *testing.T) {
	s := newSite(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			// cat, since an interpreter sets signal handlers.
			j := s.newJob(t, mode, "cat", "/proc/self/status")
			j.spec.CPUs = []int{0}
			o := j.run()
			var got strings.Builder
			for line := range strings.Lines(o.stdout) {
				name, _, _ := strings.Cut(line, ":")
				if slices.Contains(settled, name) {
					got.WriteString(line)
				}
			}
			path := "testdata/status-" + string(mode) + ".golden"
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("status is\n%s\n%s has\n%s", got.String(), path, want)
			}
		})
	}
}
