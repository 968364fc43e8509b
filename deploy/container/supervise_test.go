package main

import "testing"

func TestSuperviseReturnsTheExitCode(t *testing.T) {
	tests := []struct {
		name    string
		command []string
		want    int
	}{
		{"exit code", []string{"/bin/sh", "-c", "exit 7"}, 7},
		{"signal", []string{"/bin/sh", "-c", "kill -KILL $$"}, 137},
		{"found in PATH", []string{"true"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := supervise(tt.command)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}

func TestSuperviseNamesAMissingCommand(t *testing.T) {
	if _, err := supervise([]string{"/no/such/agent"}); err == nil {
		t.Error("no error")
	}
}
