package agent

import (
	"context"
	"sync"
	"time"

	"github.com/tolbooth-dev/tolbooth/cowfs"
)

// watched is one job under the disk watch. Its own goroutine looks at it; the watch's tells it when.
type watched struct {
	watch *diskWatch
	limit cowfs.Space
	tree  tree
	group group
	call  chan struct{} // a look is wanted
	speed float64       // processors that may write at once

	mu      sync.Mutex
	held    cowfs.Space        // by the last look
	base    cowfs.Space        // in use on the file system just before that look
	cost    time.Duration      // of that look
	at      time.Time          // its end
	blind   int                // looks that failed since
	breaks  context.CancelFunc // ends a look at the running job; nil: none goes on
	stopped bool               // where it stands, until judge has decided
}

// most is the most that the job can hold when so much of the file system is in use. Guarded by mu.
func (j *watched) most(use cowfs.Space) cowfs.Space {
	grown := use.Minus(j.base)
	return j.held.Plus(cowfs.Space{Bytes: max(grown.Bytes, 0), Inodes: max(grown.Inodes, 0)})
}

// consider calls for a look when one is due, and says how long the job may go without being considered again.
func (j *watched) consider(use cowfs.Space, now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	most := j.most(use)
	left, room := j.limit.Minus(most), j.limit.Minus(j.held)
	switch {
	case j.stopped:
		return pollMost
	case most.Over(j.limit):
		j.stop()
		return pollMost
	case j.breaks != nil || now.Before(j.at.Add(lookShare*j.cost)):
	case left.Bytes < room.Bytes/2 || left.Inodes < room.Inodes/2 || now.After(j.at.Add(j.every())):
		j.ask()
	}
	seconds := min(float64(left.Bytes)/bytesPerSecond, float64(left.Inodes)/inodesPerSecond) / j.speed
	return time.Duration(seconds * float64(time.Second))
}

// every is the longest time between two looks; a failed one is tried again sooner. Guarded by mu.
func (j *watched) every() time.Duration {
	if j.blind > 0 {
		return lookBlindly
	}
	return j.watch.every
}

// stop stops the job here and now, and has it judged. Who is inside a system call goes on until that returns. Guarded by mu.
func (j *watched) stop() {
	j.stopped = true
	if err := j.group.Hold(); err != nil {
		j.watch.faults.add("disk watch", err)
	}
	if j.breaks != nil {
		j.breaks()
	}
	j.ask()
}

func (j *watched) ask() {
	select {
	case j.call <- struct{}{}:
	default:
	}
}

// check looks at the job and says whether it is over its limit.
func (j *watched) check(ctx context.Context) bool {
	use, err := j.watch.inUse()
	if err != nil {
		j.watch.faults.add("disk watch", err)
		return false
	}
	j.mu.Lock()
	if j.stopped {
		j.mu.Unlock()
		return j.judge(ctx)
	}
	look, stop := context.WithCancel(ctx)
	defer stop()
	j.breaks = stop
	j.mu.Unlock()

	held, _, err := j.measure(look, use)

	j.mu.Lock()
	defer j.mu.Unlock()
	j.breaks = nil
	if look.Err() != nil {
		j.ask()
		return false
	}
	return j.blind == blindLooks || err == nil && held.Over(j.limit)
}

// judge looks at a stopped job until it is known whether it is over. One that is not goes on; one that is will be killed as
// it stands. A look counts when the job stood still, or when nothing grew meanwhile. The write that went over the limit is
// not waited for: the kill ends it in the middle.
func (j *watched) judge(ctx context.Context) (over bool) {
	defer func() {
		if over {
			return
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.stopped = false
		if err := j.group.Thaw(); err != nil && ctx.Err() == nil {
			j.watch.faults.add("disk watch", err)
		}
	}()
	for ctx.Err() == nil {
		j.rest(ctx)
		still, _ := j.group.Frozen() // an error: it cannot be told, so it does not stand still
		use, err := j.watch.inUse()
		if err != nil {
			j.watch.faults.add("disk watch", err)
			return false
		}
		held, hidden, err := j.measure(ctx, use)
		if held.Over(j.limit) || hidden.Over(j.limit) || j.blind >= blindLooks {
			return ctx.Err() == nil
		}
		if err != nil {
			continue
		}
		if use, err = j.watch.inUse(); err != nil || still {
			return false
		}
		j.mu.Lock()
		most := j.most(use)
		j.mu.Unlock()
		if !most.Over(j.limit) {
			return false
		}
	}
	return false
}

// rest keeps the share of looks at a stopped job.
func (j *watched) rest(ctx context.Context) {
	j.mu.Lock()
	wait := time.Until(j.at.Add(stoppedShare * j.cost))
	j.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(min(wait, lookAtLeast)):
	}
}

// measure is one exact look; use is what was in use before it. While descriptors of the job are in flight, files may hide
// behind them, so what the file system grew by since the last look may be all the job's: hidden is that sum.
func (j *watched) measure(ctx context.Context, use cowfs.Space) (held, hidden cowfs.Space, err error) {
	start := time.Now()
	held.Bytes, held.Inodes, err = j.tree.DiskUsage(ctx)
	pids, _ := j.group.Processes() // none: the group is being removed
	beside := cowfs.HeldBy(ctx, pids)
	held = held.Plus(beside.Space)

	j.mu.Lock()
	defer j.mu.Unlock()
	if ctx.Err() != nil {
		return cowfs.Space{}, cowfs.Space{}, ctx.Err()
	}
	j.cost, j.at = time.Since(start), time.Now()
	if err != nil {
		j.blind++
		return held, hidden, err
	}
	if beside.InFlight {
		hidden = j.held.Plus(use.Minus(j.base))
	}
	j.blind, j.base = 0, use
	j.held = cowfs.Space{Bytes: max(held.Bytes, hidden.Bytes), Inodes: max(held.Inodes, hidden.Inodes)}
	return held, hidden, nil
}
