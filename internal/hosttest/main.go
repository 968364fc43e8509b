package hosttest

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// settle is how long what a test made may take to go away after it: the kernel tears namespaces and their veths down
// asynchronously, in tens of milliseconds when idle.
const settle = 5 * time.Second

// Main is for TestMain: it runs the package's tests, then fails when they left something behind.
//
//	func TestMain(m *testing.M) { hosttest.Main(m) }
func Main(m *testing.M) {
	before := look()
	code := m.Run()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, "hosttest:", err)
			code = max(code, 1)
		}
	}
	// After a failure leaks are what one expects, and would bury its message.
	if code == 0 && !clean(before) {
		code = 1
	}
	os.Exit(code)
}

// clean reports leftovers and whether none of them counts.
func clean(before state) bool {
	alone := os.Getenv("TOLBOOTH_ALONE") == "1" // nothing else of this checkout runs, say make test-root and others
	look := func() (own, shared []string) {
		own, shared = before.leaks()
		if len(shared) > 0 && alone {
			own, shared = append(own, withoutTheirs(shared, neighbours())...), nil
		}
		return own, shared
	}
	own, shared := look()
	for deadline := time.Now().Add(settle); len(own)+len(shared) > 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		own, shared = look()
	}
	for _, what := range own {
		fmt.Fprintln(os.Stderr, "LEAK:", what)
	}
	for _, what := range shared {
		fmt.Fprintln(os.Stderr, "leak? (unless another process made it):", what)
	}
	return len(own) == 0
}
