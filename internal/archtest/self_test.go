package archtest

import (
	"strings"
	"testing"
)

// TestLawFindsBreaches: a law that finds nothing proves nothing.
func TestLawFindsBreaches(t *testing.T) {
	in := func(path string, imports ...string) pkg {
		return pkg{ImportPath: module + "/" + path, Doc: "x", GoFiles: []string{"x.go"}, Imports: imports}
	}
	bad := func(p pkg, change func(*pkg)) pkg { change(&p); return p }
	tests := []struct {
		name string
		pkg  pkg
		want string // "": lawful
	}{
		{"spine uses a leaf", in("agent", module+"/jail/policy"), ""},
		{"netns uses bpf", in("netns", module+"/bpf"), ""},
		{"leaf uses leaf", in("cowfs", module+"/jail"), "cowfs imports jail"},
		{"leaf uses spine", in("bpf", module+"/agent"), "bpf imports agent"},
		{"bpf uses netns", in("bpf", module+"/netns"), "bpf imports netns"},
		{"unknown room", in("pkg/stuff"), "in no room"},
		{"metrics in a leaf", in("jail", "github.com/prometheus/client_golang/prometheus"), "jail imports github.com/prometheus"},
		{"sdk below store", in("cowfs/store/s3", "github.com/minio/minio-go/v7"), ""},
		{"sdk beside store", in("cowfs/storeroom", "github.com/minio/minio-go/v7"), "imports github.com/minio"},
		{"cgo", bad(in("jail/ptrace"), func(p *pkg) { p.CgoFiles = []string{"c.go"} }), "uses cgo"},
		{"cgo at home", bad(in("jail/filter"), func(p *pkg) { p.CgoFiles = []string{"c.go"} }), ""},
		{"no comment", bad(in("bpf"), func(p *pkg) { p.Doc = "" }), "no package comment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(tt.pkg.findings(), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("findings %q, want %q", got, tt.want)
			}
		})
	}
	jail := pkg{ImportPath: module + "/jail/cmd/tolbooth-jail", Deps: []string{"fmt", "golang.org/x/sys/unix", module + "/jail/wire", "example.org/x"}}
	if got := jailFindings(jail, map[string]bool{"fmt": true}); len(got) != 1 || !strings.Contains(got[0], "example.org/x") {
		t.Errorf("jail findings %q", got)
	}
}
