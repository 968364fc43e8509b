package probe

import (
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestProbesNeverTakeTheMainThread: it does not end with the goroutine, and would keep what a probe did to it.
func TestProbesNeverTakeTheMainThread(t *testing.T) {
	hosttest.Filters(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				err := inThread(func() error {
					if unix.Gettid() == unix.Getpid() {
						return errors.New("a probe ran on the main thread")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
