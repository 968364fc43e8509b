package agent

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// wake tells any number of waiters that something happened. It costs nothing while nobody waits.
type wake struct {
	mu sync.Mutex
	ch chan struct{} // guarded by mu; nil: nobody waits
}

// wait returns a channel that is closed at the next call of all. Look at the state after calling it, then wait.
func (w *wake) wait() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

func (w *wake) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}

// newEventfd makes the descriptor by which a warden, another process, says that the spool has grown. It is non-blocking,
// so the runtime waits for it without a thread.
func newEventfd() (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return os.NewFile(uintptr(fd), "eventfd"), nil
}

// relay wakes the waiters each time the eventfd was written. It ends when f is closed.
func relay(f *os.File, w *wake) {
	var count [8]byte
	for {
		if _, err := f.Read(count[:]); err != nil {
			return
		}
		w.all()
	}
}
