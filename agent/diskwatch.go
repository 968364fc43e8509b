package agent

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs"
)

// diskWatch holds jobs to their disk limits where the file system has no quotas. It is accounting: a look at a job (its
// whole tree, and what its processes hold without a name) is exact and costs time, while what the state file system has
// given out costs one system call and bounds how much any job can have grown since its last look. So the watch asks the
// file system often, and looks at a job only when that bound comes near its limit. When it reaches the limit, the job is
// stopped where it stands until a look has said whether it goes on.
//
// With several writers on one file system the bound is too high, which costs a look. It is too low when others free what
// a job takes; the file system does not fill then, and lookAtLeast finds the job.
type diskWatch struct {
	inUse  func() (cowfs.Space, error) // of the state file system
	every  time.Duration               // a job is looked at this often, whatever the bound says
	faults *faults
	log    *slog.Logger
	wake   int // eventfd: something changed that poll did not know of when it went to sleep

	polls   sync.WaitGroup
	slow    sync.Once // says that poll has to wait for its turn
	mu      sync.Mutex
	jobs    map[*watched]bool // guarded by mu
	polling bool              // guarded by mu
}

const (
	// No processor writes faster than this: what a copy of memory takes, and what the kernel needs to make an inode.
	bytesPerSecond  = 4 << 30
	inodesPerSecond = 1 << 20

	pollLeast, pollMost = 200 * time.Microsecond, 200 * time.Millisecond

	// lookAtLeast is where the bound holds; elsewhere it is only as good as the file system's last write-out.
	lookAtLeast, lookBlindly = time.Second, 200 * time.Millisecond

	// A look costs at most this share of a processor; one at a stopped job a larger one, since the job waits for it.
	lookShare, stoppedShare = 20, 4

	// blindLooks in a row may fail: a job that moves its directories about so that no look succeeds is over its limit too.
	blindLooks = 4
)

// newDiskWatch watches a file system by what is in use on it; prompt: that counts a write when it is made.
func newDiskWatch(inUse func() (cowfs.Space, error), prompt bool, f *faults, log *slog.Logger) (*diskWatch, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	every := lookBlindly
	if prompt {
		every = lookAtLeast
	}
	return &diskWatch{inUse: inUse, every: every, faults: f, log: log, wake: wake}, nil
}

// Close ends the watch. No job may be held.
func (d *diskWatch) Close() error {
	d.polls.Wait()
	return unix.Close(d.wake)
}

// hold watches one job until ctx ends, and calls over once when it holds more than it may.
func (d *diskWatch) hold(ctx context.Context, l limits, t tree, g group, over func()) {
	start, err := d.inUse()
	if err != nil {
		d.faults.add("disk watch", err)
	}
	j := &watched{
		watch: d, limit: cowfs.Space{Bytes: l.Disk.Value, Inodes: l.Inodes.Value}, tree: t, group: g,
		call: make(chan struct{}, 1), base: start, speed: math.Ceil(max(l.CPUs.Value, 1)),
	}
	j.ask() // what is there already counts
	d.add(j)
	defer d.remove(j)
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.call:
		}
		if j.check(ctx) {
			over()
			return
		}
		d.rouse()
	}
}

func (d *diskWatch) add(j *watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.jobs == nil {
		d.jobs = map[*watched]bool{}
	}
	d.jobs[j] = true
	if !d.polling {
		d.polling = true
		d.polls.Go(d.poll)
	}
	d.rouse()
}

func (d *diskWatch) remove(j *watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.jobs, j)
	d.rouse()
}

// rouse ends poll's sleep.
func (d *diskWatch) rouse() {
	one := binary.NativeEndian.AppendUint64(nil, 1)
	_, _ = unix.Write(d.wake, one) // fails only when as many are waiting already as fit
}

// poll asks the file system, for all jobs at once, as long as there are any. It has a thread of its own and goes before
// others: writers that keep every processor busy must not hold up who stops them.
func (d *diskWatch) poll() {
	runtime.LockOSThread() // never unlocked: the thread ends with poll
	d.slower(goFirst())
	for {
		use, err := d.inUse()
		if err != nil {
			d.faults.add("disk watch", err)
		}
		d.mu.Lock()
		if len(d.jobs) == 0 {
			d.polling = false
			d.mu.Unlock()
			return
		}
		now, wait := time.Now(), pollMost
		for j := range d.jobs {
			wait = min(wait, j.consider(use, now))
		}
		d.mu.Unlock()
		d.sleep(max(wait, pollLeast))
	}
}

// goFirst has the calling thread run as soon as it wants to, and tells what refused that: real-time scheduling (a control group
// without a real-time share), and then even the nicer way (no CAP_SYS_NICE).
func goFirst() (realtime, nice error) {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}
	if realtime = unix.SchedSetAttr(0, &attr, 0); realtime == nil {
		return nil, nil
	}
	return realtime, unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)
}

// slower says so when the watch has to wait for its turn: jobs then get further over their disk limits before they are
// stopped. As nice as can be it still comes soon, and the log says so once; without that the node is degraded.
func (d *diskWatch) slower(realtime, nice error) {
	if realtime == nil {
		return
	}
	if nice != nil {
		d.faults.add("disk watch", fmt.Errorf("it waits for its turn like any program, so jobs can get further over their disk limits: sched_setattr: %w; setpriority: %w; "+
			"grant CAP_SYS_NICE, or keep the state directory on ext4 or xfs with the mount option prjquota", realtime, nice))
		return
	}
	d.slow.Do(func() {
		d.log.Warn("the disk watch runs at nice -20, since real-time scheduling is refused", keyErr, fmt.Errorf("sched_setattr: %w", realtime))
	})
}

// sleep waits until something changes, at most so long. It waits in the kernel itself: a timer of Go's scheduler is as late
// as the threads that have to be found for it.
func (d *diskWatch) sleep(wait time.Duration) {
	ts := unix.NsecToTimespec(wait.Nanoseconds())
	fds := []unix.PollFd{{Fd: int32(d.wake), Events: unix.POLLIN}}
	if n, _ := unix.Ppoll(fds, &ts, nil); n > 0 { // interrupted: the next question comes sooner
		_, _ = unix.Read(d.wake, make([]byte, 8)) // back to zero
	}
}
