package cowfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

const (
	// inlineRemovals bounds what a release removes on the spot; what is larger goes on in the background.
	inlineRemovals = 256
	// maxOpenDirs bounds the descriptors of one removal: what lies deeper is moved up first.
	maxOpenDirs = 48
)

// sweeper removes trees that nobody uses any more. A tree is first moved into the trash, which takes it out of sight at
// once, whatever its size; what the agent does not get to is found there by the next one.
type sweeper struct {
	trash *os.File
	wake  chan struct{}
	quit  chan struct{}
	done  chan struct{}

	mu       sync.Mutex
	failures int64 // guarded by mu
	lastErr  error // guarded by mu
}

func startSweeper(trash *os.File) *sweeper {
	s := &sweeper{trash: trash, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	s.wake <- struct{}{} // leftovers of an earlier agent
	go s.loop()
	return s
}

// stop ends the background removal between two entries and reports what went wrong since the start.
func (s *sweeper) stop() error {
	close(s.quit)
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastErr
}

func (s *sweeper) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	s.lastErr = err
}

// discard removes name below parent: a small tree at once, a large one in the background.
func (s *sweeper) discard(parent *os.File, name string) error {
	r := remover{parent: s.trash, budget: inlineRemovals}
	whole, err := r.remove(parent, name, 0)
	if err == nil && whole {
		return nil
	}
	if err := unix.Renameat2(int(parent.Fd()), name, int(s.trash.Fd()), rand.Text(), unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("renameat2 %s into the trash: %w", quote(name), err)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

func (s *sweeper) loop() {
	defer close(s.done)
	for {
		select {
		case <-s.quit:
			return
		case <-s.wake:
		}
		if err := s.sweep(); err != nil {
			s.failed(err)
		}
	}
}

// sweep empties the trash. Its entries are taken in batches, as many as the list of one read.
func (s *sweeper) sweep() error {
	const batch = 1024
	dir, err := fdwalk.OpenDir(s.trash, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := fdwalk.FirstNames(dir, batch)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			r := remover{parent: dir, budget: -1, quit: s.quit}
			if whole, err := r.remove(dir, name, 0); err != nil || !whole {
				return err
			}
		}
	}
}

// remover deletes one tree, entry by entry, through descriptors. It follows nothing: unlinkat(2) takes links, fifos,
// sockets and devices for what they are, and a directory is opened with O_NOFOLLOW.
type remover struct {
	parent *os.File      // where directories that lie too deep are moved to; on the same file system
	budget int           // entries left to remove; negative: no limit
	quit   chan struct{} // closed: stop early; nil: never
}

// remove deletes name in dir and says whether it got to the end.
func (r *remover) remove(dir *os.File, name string, depth int) (bool, error) {
	if r.budget == 0 {
		return false, nil
	}
	select {
	case <-r.quit:
		return false, nil
	default:
	}
	if r.budget > 0 {
		r.budget--
	}
	fd := int(dir.Fd())
	err := unix.Unlinkat(fd, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return false, fmt.Errorf("unlinkat %s: %w", quote(name), err)
	}
	// Most directories of a released tree are empty: try before reading.
	if unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) == nil {
		return true, nil
	}
	if depth >= maxOpenDirs {
		up := rand.Text()
		if err := unix.Renameat2(fd, name, int(r.parent.Fd()), up, unix.RENAME_NOREPLACE); err != nil {
			return false, fmt.Errorf("renameat2 %s out of a deep tree: %w", quote(name), err)
		}
		return r.remove(r.parent, up, 0)
	}
	whole, err := r.empty(dir, name, depth)
	if err != nil || !whole {
		return false, err
	}
	if err := unix.Unlinkat(fd, name, unix.AT_REMOVEDIR); err != nil {
		return false, fmt.Errorf("unlinkat %s (AT_REMOVEDIR): %w", quote(name), err)
	}
	return true, nil
}

func (r *remover) empty(dir *os.File, name string, depth int) (bool, error) {
	const batch = 4096
	sub, err := fdwalk.OpenDir(dir, name)
	if err != nil {
		return false, err
	}
	defer sub.Close()
	for {
		names, err := fdwalk.FirstNames(sub, batch)
		if err != nil {
			return false, err
		}
		if len(names) == 0 {
			return true, nil
		}
		for _, n := range names {
			if whole, err := r.remove(sub, n, depth+1); err != nil || !whole {
				return false, err
			}
		}
	}
}
