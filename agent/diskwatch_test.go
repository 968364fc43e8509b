package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// disk plays the file system, one job's tree on it and the job's control group.
type disk struct {
	mu     sync.Mutex
	used   int64 // by the job
	others int64
	blind  error // of each look
	steps  []string
}

func (d *disk) space() (cowfs.Space, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cowfs.Space{Bytes: d.used + d.others}, nil
}

type diskTree struct {
	fakeTree
	*disk
}

type diskGroup struct {
	fakeGroup
	*disk
}

func (d diskTree) DiskUsage(context.Context) (int64, int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, "look")
	return d.used, 1, d.blind
}

func (d diskGroup) Hold() error { return d.note("hold") }
func (d diskGroup) Thaw() error { return d.note("thaw") }

func (d *disk) note(step string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, step)
	return nil
}

func (d *disk) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *disk) did(step string) func() bool {
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return slices.Contains(d.steps, step)
	}
}

// start watches the disk with a limit of 1000 bytes and returns how often over was called.
func (d *disk) start(t *testing.T) (over func() bool) {
	t.Helper()
	w, err := newDiskWatch(d.space, true, &faults{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	called := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		w.hold(ctx, limits{Disk: limit[int64]{1000, ""}, Inodes: limit[int64]{1000, ""}},
			diskTree{disk: d}, diskGroup{disk: d}, func() { close(called) })
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "a first look", d.did("look"))
	return func() bool {
		select {
		case <-called:
			return true
		default:
			return false
		}
	}
}

// TestDiskWatchJudges: what others write has a job looked at, stopped when it may be the writer, and let go again; what the
// job itself holds ends it, and it is not let go.
func TestDiskWatchJudges(t *testing.T) {
	d := &disk{}
	over := d.start(t)
	d.change(func() { d.others += 5000 })
	eventually(t, "thaw", d.did("thaw"))
	if over() {
		t.Fatal("the job was ended for what others wrote")
	}
	d.change(func() {
		if !slices.Equal(d.steps[len(d.steps)-3:], []string{"hold", "look", "thaw"}) {
			t.Errorf("steps %v", d.steps)
		}
		d.steps = nil
		d.used += 1001
	})
	eventually(t, "end", over)
	d.change(func() {
		if !slices.Equal(d.steps, []string{"hold", "look"}) {
			t.Errorf("steps %v", d.steps)
		}
	})
}

// TestDiskWatchKeepsTheLimit: a job may hold what its limit says.
func TestDiskWatchKeepsTheLimit(t *testing.T) {
	d := &disk{}
	over := d.start(t)
	for range 20 {
		d.change(func() { d.used += 50 })
		time.Sleep(2 * time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	if over() {
		t.Errorf("ended with %d of 1000", d.used)
	}
}

// TestDiskWatchSeesThroughSwaps: what a job takes while others free as much is found by the look that every job gets.
func TestDiskWatchSeesThroughSwaps(t *testing.T) {
	d := &disk{others: 5000}
	over := d.start(t)
	d.change(func() { d.used, d.others = 2000, 3000 })
	eventually(t, "end", over)
}

// TestDiskWatchEndsWhoCannotBeMeasured: a job that moves its directories about so that no look succeeds is over its limit.
func TestDiskWatchEndsWhoCannotBeMeasured(t *testing.T) {
	d := &disk{blind: errors.New("moved")}
	over := d.start(t)
	eventually(t, "end", over)
}

// TestDiskWatchSaysThatItIsSlow: a watch that may not go first is no secret. Refused real-time scheduling is said once; refused
// niceness, too, is a problem of the node.
func TestDiskWatchSaysThatItIsSlow(t *testing.T) {
	for _, c := range []struct {
		realtime, nice  error
		lines, problems int
	}{{nil, nil, 0, 0}, {unix.EPERM, nil, 1, 0}, {unix.EPERM, unix.EACCES, 0, 1}} {
		var log bytes.Buffer
		w := &diskWatch{faults: &faults{}, log: slog.New(slog.NewTextHandler(&log, nil))}
		w.slower(c.realtime, c.nice)
		w.slower(c.realtime, c.nice)
		if n := strings.Count(log.String(), "\n"); n != c.lines {
			t.Errorf("%v, %v: %d lines of log: %s", c.realtime, c.nice, n, &log)
		}
		if found := w.faults.recent(); len(found) != c.problems {
			t.Errorf("%v, %v: faults %v", c.realtime, c.nice, found)
		}
	}
}

// TestGoFirst: who may, runs in real time; children do not.
func TestGoFirst(t *testing.T) {
	hosttest.Root(t)
	hosttest.OnOwnThread(func() {
		realtime, nice := goFirst()
		attr, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Error(err)
			return
		}
		switch {
		case realtime == nil && (attr.Policy != unix.SCHED_FIFO || attr.Flags&unix.SCHED_FLAG_RESET_ON_FORK == 0):
			t.Errorf("nothing was refused, but the thread has %+v", attr)
		case realtime != nil && nice == nil && attr.Nice != -20:
			t.Errorf("%v was refused, and the thread is at nice %d", realtime, attr.Nice)
		}
	})
}
