package bench

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// workload is one program that runs for about a second, in a jail and outside with the same files.
type workload struct {
	name  string
	what  string
	argv  []string
	files []api.File
	calls int // refused calls that it makes; 0: what counts is the time of the whole
}

const cpuSource = `
int main(void) { unsigned long x = 88172645463325252UL, i; for (i = 0; i < 400000000UL; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } return x == 42; }`

const getpidSource = `
#include <sys/syscall.h>
#include <unistd.h>
int main(void) { for (int i = 0; i < 1000000; i++) syscall(SYS_getpid); return 0; }`

// refusedSource is refused outside a jail too, by the kernel itself: only root may chroot.
const refusedSource = `
#include <unistd.h>
int main(void) { for (int i = 0; i < 10000; i++) if (chroot(".") == 0) return 1; return 0; }`

// compile is one that reads and writes many files, and starts some processes.
const compile = "tar xf project.tar && make -s -j2 -C project && ./project/program >/dev/null"

func workloads(b *testing.B) []workload {
	for _, program := range []string{"gcc", "make", "tar"} {
		hosttest.Program(b, program)
	}
	return []workload{
		{name: "cpu", what: "400 M rounds of xorshift", argv: []string{"/workspace/program"}, files: compiled(b, cpuSource)},
		{name: "getpid_1M", what: "1 M getpid", argv: []string{"/workspace/program"}, files: compiled(b, getpidSource)},
		{name: "untar_make", what: "untar and make -j2 of 21 C files", argv: []string{"/bin/sh", "-ec", compile}, files: []api.File{content("project.tar", project(b))}},
		{name: "fork_1000", what: "1,000 × /bin/true from sh", argv: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done"}},
		{name: "refused_10k", what: "a refused call", argv: []string{"/workspace/program"}, files: compiled(b, refusedSource), calls: 10_000},
	}
}

// compiled is a C program as /workspace/program.
func compiled(b *testing.B, src string) []api.File {
	b.Helper()
	out := filepath.Join(b.TempDir(), "program")
	cmd := exec.Command("gcc", "-x", "c", "-O1", "-static", "-o", out, "-")
	cmd.Stdin = bytes.NewReader([]byte(src))
	if msg, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("compile: %v\n%s", err, msg)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		b.Fatal(err)
	}
	return []api.File{content("program", data)}
}

func content(name string, data []byte) api.File {
	return api.File{Path: name, Content: base64.StdEncoding.EncodeToString(data), Encoding: "base64", Mode: "0755"}
}
