package bench

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// workload is one program that runs for about a second.
type workload struct {
	name    string
	what    string
	argv    []string
	program string // base64 of a compiled program that replaces argv in the jail
	limits  api.Limits
}

const cpuSource = `
#include <stdio.h>
int main(void) { unsigned long x = 88172645463325252UL, i; for (i = 0; i < 400000000UL; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } return x == 42; }`

const getpidSource = `
#include <sys/syscall.h>
#include <unistd.h>
int main(void) { for (int i = 0; i < 1000000; i++) syscall(SYS_getpid); return 0; }`

func workloads(b *testing.B) []workload {
	hosttest.Program(b, "gcc")
	room := api.Limits{Wall: api.Duration(2 * time.Minute), CPU: api.Duration(2 * time.Minute), CPUs: 2}
	cpu, getpid := compiled(b, cpuSource), compiled(b, getpidSource)
	return []workload{
		{name: "cpu", what: "400 M rounds of xorshift", argv: []string{cpu}, program: content(b, cpu), limits: room},
		{name: "getpid_1M", what: "1 M getpid", argv: []string{getpid}, program: content(b, getpid), limits: room},
		{name: "fork_1000", what: "1,000 × /bin/true from sh", argv: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done"}, limits: room},
	}
}

func compiled(b *testing.B, src string) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), "program")
	cmd := exec.Command("gcc", "-x", "c", "-O1", "-static", "-o", out, "-")
	cmd.Stdin = bytes.NewReader([]byte(src))
	if msg, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("compile: %v\n%s", err, msg)
	}
	return out
}

func content(b *testing.B, path string) string {
	b.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}
