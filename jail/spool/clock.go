package spool

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// MonotonicNow reads CLOCK_MONOTONIC in nanoseconds. Unlike a time.Time, the number means the same in every process of
// this boot (and of this time namespace, which jails' wardens share with the agent), so it can be sent to one.
func MonotonicNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error()) // cannot fail with a valid pointer
	}
	return ts.Nano()
}

// Monotonic converts a time of this process to CLOCK_MONOTONIC nanoseconds. It is exact to a microsecond when t has
// a monotonic reading (it came from time.Now), and follows the wall clock when it has none. Two clocks cannot be read at
// the same moment, and on a busy machine a thread may be put aside between them: the closest of three readings counts.
func Monotonic(t time.Time) int64 {
	least, ns := time.Duration(math.MaxInt64), int64(0)
	for range 3 {
		before, now := time.Since(t), MonotonicNow()
		if apart := time.Since(t) - before; apart < least {
			least, ns = apart, now-before.Nanoseconds()-apart.Nanoseconds()/2
		}
	}
	return ns
}
