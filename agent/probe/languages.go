package probe

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Language is an interpreter or compiler that jobs on base "host" find.
type Language struct {
	Name    string `json:"name"`
	Program string `json:"program"` // full path; empty: not found
	Version string `json:"version"` // first line of what it says of itself
}

// programs are looked for where a job's PATH looks, in this order.
var programs = []struct {
	language string
	names    []string
	args     []string
}{
	{"python", []string{"python3"}, []string{"--version"}},
	{"javascript", []string{"node"}, []string{"--version"}},
	{"bash", []string{"bash"}, []string{"--version"}},
	{"c", []string{"gcc", "cc", "clang"}, []string{"--version"}},
	{"c++", []string{"g++", "c++", "clang++"}, []string{"--version"}},
	{"go", []string{"go"}, []string{"version"}},
	{"perl", []string{"perl"}, []string{"-e", "print qq(perl $^V\n)"}},
	{"ruby", []string{"ruby"}, []string{"--version"}},
}

var jobPath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// versionTime bounds how long one program may take to say its version.
const versionTime = 800 * time.Millisecond

// Languages finds what is there, and asks each for its version.
func Languages(ctx context.Context) []Language {
	list := make([]Language, len(programs))
	var wg sync.WaitGroup
	for i, p := range programs {
		list[i].Name = p.language
		if list[i].Program = find(p.names); list[i].Program == "" {
			continue
		}
		wg.Go(func() { list[i].Version = versionOf(ctx, list[i].Program, p.args) })
	}
	wg.Wait()
	return list
}

func find(names []string) string {
	for _, name := range names {
		for _, dir := range jobPath {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	return ""
}

// versionOf runs a program of this node with an empty environment and without input. The answer is "" when it gives
// none in time.
func versionOf(ctx context.Context, program string, args []string) string {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=" + strings.Join(jobPath, ":"), "HOME=/nonexistent", "GOTOOLCHAIN=local", "GOENV=off"}
	cmd.Dir = "/"
	cmd.WaitDelay = 100 * time.Millisecond
	var out bounded
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(out.data, []byte("\n"))
	return strings.TrimSpace(string(line))
}

// bounded keeps the first bytes written to it.
type bounded struct{ data []byte }

func (b *bounded) Write(p []byte) (int, error) {
	const most = 256
	b.data = append(b.data, p[:min(len(p), most-len(b.data))]...)
	return len(p), nil
}
