package harness

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// Slow is one second, stretched on an emulated guest: the unit of every time-out here.
var Slow = hosttest.Slow(time.Second)

// onOwnThread runs fn on a thread that ends with it, so that whatever namespace fn left it in is left too.
func onOwnThread(fn func() error) (err error) {
	hosttest.OnOwnThread(func() { err = fn() })
	return err
}

var binaries = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("TOLBOOTH_BIN"); dir != "" {
		return dir, nil
	}
	root, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(string(bytes.TrimSpace(root))), "bin"), nil
})

// Binaries is the directory of the built tolbooth and tolbooth-jail: $TOLBOOTH_BIN, else bin of the checkout.
func Binaries(t testing.TB) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tolbooth")); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	return dir
}

// syncBuffer is a buffer that a process writes while a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
