package archtest

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/tolbooth-dev/tolbooth"

// rooms lists, for each top-level directory, the rooms that its packages may import. Test files are free.
var rooms = map[string][]string{
	"agent":       {"agent", "jail", "netns", "cowfs", "bpf", "internal"},
	"jail":        {"jail"},
	"netns":       {"netns", "bpf"},
	"cowfs":       {"cowfs"},
	"bpf":         {"bpf"},
	"internal":    {"internal"},
	"deploy":      {"deploy", "agent", "internal"},
	"integration": {"integration", "agent", "jail", "internal"},
}

const whyRooms = "agent is the spine and uses the four leaves; a leaf that knew another one, or the agent, could not be " +
	"read, tested or replaced alone. Plain values, readers and *os.File cross the borders"

// homes lists, for imports that must not spread, the only directories below which they may appear.
var homes = []struct {
	prefix string
	below  []string
	why    string
}{
	{"github.com/prometheus/", []string{"agent"}, "leaves return plain Stats; the agent alone registers metrics, in agent/metrics.go"},
	{"github.com/minio/", []string{"cowfs/store"}, "a cloud SDK is a driver behind the bucket interface and nothing else knows it"},
	{"github.com/Azure/", []string{"cowfs/store"}, "a cloud SDK is a driver behind the bucket interface and nothing else knows it"},
	{"cloud.google.com/", []string{"cowfs/store"}, "a cloud SDK is a driver behind the bucket interface and nothing else knows it"},
	{"golang.org/x/oauth2", []string{"cowfs/store"}, "a cloud SDK is a driver behind the bucket interface and nothing else knows it"},
	{"github.com/cilium/ebpf", []string{"bpf"}, "what the kernel is told about packets has one author; others use bpf's Go face"},
	{"github.com/seccomp/", []string{"jail/filter"}, "only jail/filter links C; everything below the agent gets compiled bytes"},
}

// pkg is what `go list -json` says of a package, as far as the law asks.
type pkg struct {
	ImportPath string
	Dir        string
	Name       string
	Doc        string
	Standard   bool
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Deps       []string
}

// findings are the breaches of the law in one package.
func (p pkg) findings() []string {
	var found []string
	breach := func(why, format string, args ...any) {
		found = append(found, fmt.Sprintf(format, args...)+"\n\twhy: "+why)
	}
	path := p.rel()
	room, _, _ := strings.Cut(path, "/")
	allowed, known := rooms[room]
	if !known {
		breach("a newcomer finds the room of any line from a short list of rooms", "%s is in no room (%s)", path, room)
	}
	for _, imp := range p.Imports {
		if other, ours := strings.CutPrefix(imp, module+"/"); ours {
			otherRoom, _, _ := strings.Cut(other, "/")
			if known && !slices.Contains(allowed, otherRoom) {
				breach(whyRooms, "%s imports %s", path, other)
			}
		}
		for _, h := range homes {
			at := slices.ContainsFunc(h.below, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
			if strings.HasPrefix(imp, h.prefix) && !at {
				breach(h.why, "%s imports %s", path, imp)
			}
		}
	}
	if len(p.CgoFiles) > 0 && path != "jail/filter" {
		breach("tolbooth-jail and every leaf build without a C compiler; only jail/filter needs libseccomp", "%s uses cgo in %v", path, p.CgoFiles)
	}
	if len(p.GoFiles)+len(p.CgoFiles) > 0 && p.Doc == "" {
		breach("a package says what it owns, what it never does and who calls it, before any code", "%s has no package comment", path)
	}
	return found
}

func (p pkg) rel() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// jailFindings are the breaches in what tolbooth-jail links.
func jailFindings(jail pkg, standard map[string]bool) []string {
	var found []string
	for _, dep := range jail.Deps {
		ours := dep == module+"/jail" || strings.HasPrefix(dep, module+"/jail/")
		if ours || standard[dep] || strings.HasPrefix(dep, "golang.org/x/sys/") {
			continue
		}
		found = append(found, jail.rel()+" links "+dep+"\n\twhy: it handles hostile input as root, starts once or twice for every job, and "+
			"must be small and static: the standard library, x/sys and the jail's own packages only")
	}
	return found
}
