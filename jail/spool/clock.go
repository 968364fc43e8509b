package spool

import (
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
// a monotonic reading (it came from time.Now), and follows the wall clock when it has none.
func Monotonic(t time.Time) int64 {
	return MonotonicNow() - time.Since(t).Nanoseconds()
}
