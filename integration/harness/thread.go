package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"os/exec"
)

// Slow stretches every time-out: 1 on a normal machine, more where TOLBOOTH_SLOW_FACTOR says so (an emulated guest).
var Slow = func() time.Duration {
	n, err := strconv.Atoi(os.Getenv("TOLBOOTH_SLOW_FACTOR"))
	if err != nil || n < 1 {
		n = 1
	}
	return time.Duration(n) * time.Second
}()

// onOwnThread runs fn on a locked thread that dies with it, so that whatever namespace fn left it in is left too.
func onOwnThread(fn func() error) error {
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		errs <- fn()
	}()
	return <-errs
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
