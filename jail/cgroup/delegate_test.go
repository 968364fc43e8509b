package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// delegateRole is an agent on pure v2, started in a group of its own; mineEnv names a process to take along. It prints
// what it finds, a line a step.
func delegateRole() {
	var mine []int
	if text := os.Getenv("CGROUP_TEST_MINE"); text != "" {
		var pid int
		fmt.Sscan(text, &pid)
		mine = append(mine, pid)
	}
	here := func() string {
		text, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return err.Error()
		}
		return filepath.Base(strings.TrimSpace(string(text)))
	}
	fmt.Println("start in", here())
	p, err := OpenParent("tb-d", mine...)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(0)
	}
	fmt.Println("moved to", here(), "missing", len(p.Support().Missing()))
	g, err := p.Create("job")
	if err == nil {
		err = g.SetLimits(Limits{MemoryBytes: 16 << 20, Pids: 4, CPUs: 1})
	}
	fmt.Println("limits:", err)
	_, err = OpenParent("tb-d", mine...) // a second start of the same agent, from where the first one went
	fmt.Println("again:", err, "in", here())
	fmt.Println("close:", p.Close(), "back in", here())
	os.Exit(0)
}

// delegated runs delegateRole in a fresh group with controllers, beside other processes.
func delegated(t *testing.T, others func(Group) []string) string {
	p := testParent(t)
	hosttest.Need(t, "cgroup v2", p.Support().Version == "v2" && len(p.Support().Missing()) == 0, "controllers are on v1 here")
	g, err := p.Create("nest")
	if err != nil {
		t.Fatal(err)
	}
	cmd := role("delegate")
	if others != nil {
		cmd.Env = append(cmd.Env, others(g)...)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = w
	startIn(t, g, cmd)
	w.Close()
	cmd.Wait()
	buf := make([]byte, 4096)
	n, _ := out.Read(buf)
	for _, name := range []string{"tb-d", "tb-d.agent"} {
		if _, err := os.Stat(filepath.Join(g.Unified, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	return string(buf[:n])
}

func sleeper(t *testing.T, g Group) *exec.Cmd {
	cmd := exec.Command("sleep", "60")
	startIn(t, g, cmd)
	return cmd
}

const delegateGood = "start in nest\nmoved to tb-d.agent missing 0\nlimits: <nil>\nagain: <nil> in tb-d.agent\nclose: <nil> back in nest\n"

func TestAgentMovesAsideOnV2(t *testing.T) {
	if got := delegated(t, nil); got != delegateGood {
		t.Errorf("got:\n%s", got)
	}
}

func TestAgentTakesItsSupervisorAlongOnV2(t *testing.T) {
	var with *exec.Cmd
	got := delegated(t, func(g Group) []string {
		with = sleeper(t, g)
		return []string{"CGROUP_TEST_MINE=" + itoa(with.Process.Pid)}
	})
	if got != delegateGood {
		t.Errorf("got:\n%s", got)
	}
	text, err := os.ReadFile("/proc/" + itoa(with.Process.Pid) + "/cgroup")
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(text)), "/nest") {
		t.Errorf("the supervisor is in %q, %v", text, err)
	}
}

func TestAgentMovesNobodyElseOnV2(t *testing.T) {
	got := delegated(t, func(g Group) []string { sleeper(t, g); return nil })
	for _, want := range []string{"error: open cgroup parent", "(sleep)", "Delegate=yes"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
