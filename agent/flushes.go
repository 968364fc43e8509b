package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tolbooth-dev/tolbooth/cowfs"
)

// flushes counts what became of named workspaces' work.
type flushes struct {
	mu        sync.Mutex
	last      time.Time
	done      int64
	failed    int64
	bytes     int64
	unflushed int
	why       string
}

type flushFigures struct {
	age                 *int64 // milliseconds since the last flush, nil before the first
	done, failed, bytes int64
	unflushed           int
	why                 string
}

// succeeded notes a flush and the bytes it added to the bucket.
func (f *flushes) succeeded(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.done, f.bytes = time.Now(), f.done+1, f.bytes+bytes
}

// parked notes how much waits on this node, and why.
func (f *flushes) parked(list []cowfs.Parked, failed int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unflushed, f.why, f.failed = len(list), "", f.failed+failed
	if len(list) > 0 {
		f.why = list[0].Workspace + ": " + list[0].Reason
	}
}

func (f *flushes) now() flushFigures {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := flushFigures{done: f.done, failed: f.failed, bytes: f.bytes, unflushed: f.unflushed, why: f.why}
	if !f.last.IsZero() {
		age := time.Since(f.last).Milliseconds()
		out.age = &age
	}
	return out
}

// retryEvery is how often parked workspaces are tried again.
const retryEvery = 15 * time.Second

// keepFlushing tries parked workspaces again until stopped, and keeps the count of what still waits.
func (b *built) keepFlushing(log *slog.Logger) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if n, err := b.fs.RetryParked(ctx); err != nil && ctx.Err() == nil {
				log.Warn("parked workspaces", "flushed", n, keyErr, err)
			}
			b.countParked(0)
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryEvery):
			}
		}
	})
	return func() error { cancel(); wg.Wait(); return nil }
}

func (b *built) countParked(failed int64) {
	list, err := b.fs.Parked()
	if err != nil {
		b.faults.add("parked", err)
	}
	b.flushes.parked(list, failed)
}

// reclaim releases the trees that an earlier agent left. Every process of it is gone: a named workspace's work is parked
// and flushed again, everything else is removed.
func (b *built) reclaim() error {
	left, err := b.fs.Leftovers()
	errs := []error{err}
	for _, l := range left {
		if err := b.fs.Abandon(l, "the agent died while job "+l.ID+" ran"); err != nil {
			errs = append(errs, err)
			continue
		}
		b.reclaimed++
	}
	return errors.Join(errs...)
}
