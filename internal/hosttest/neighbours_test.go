package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestAnAgentOfAnotherSessionIsANeighbour copies sleep to a file named tolbooth, and starts it as someone else would.
func TestAnAgentOfAnotherSessionIsANeighbour(t *testing.T) {
	dir := t.TempDir()
	sleep, err := os.ReadFile(Program(t, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "tolbooth")
	if err := os.WriteFile(program, sleep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "instance"), []byte("5e1f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		session bool
	}{{"another session", true}, {"this session", false}} {
		t.Run(tt.name, func(t *testing.T) {
			// A name that sleep takes as a time, and that starts with the flag's: argv[0] is free.
			cmd := &exec.Cmd{Path: program, Args: []string{"--state=" + dir, "60"}, SysProcAttr: &syscall.SysProcAttr{Setsid: tt.session}}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				cmd.Process.Kill()
				cmd.Wait()
			}()
			found := false
			for deadline := time.Now().Add(Slow(5 * time.Second)); !found && time.Now().Before(deadline) && tt.session; time.Sleep(time.Millisecond) {
				found = slices.Contains(neighbours(), neighbour{"5e1f"})
			}
			if !tt.session {
				found = slices.Contains(neighbours(), neighbour{"5e1f"})
			}
			if found != tt.session {
				t.Errorf("neighbour: %v, want %v", found, tt.session)
			}
		})
	}
}

func TestObjectsOfNeighboursAreNoLeaks(t *testing.T) {
	objects := []string{"cgroup /sys/fs/cgroup/unified/tb-aafa/0001", "network interface tbaafa0001", "cgroup /sys/fs/cgroup/unified/tb-1234"}
	for _, tt := range []struct {
		name string
		list []neighbour
		want []string
	}{
		{"alone", nil, objects},
		{"beside an agent", []neighbour{{"aafa"}}, objects[2:]},
		{"beside one that keeps its name to itself", []neighbour{{""}}, []string{}},
	} {
		if got := withoutTheirs(objects, tt.list); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
