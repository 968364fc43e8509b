package hosttest

import (
	"os"
	"strconv"
	"time"
)

// Slow is how long something that takes d on a normal machine may take on this one: $TOLBOOTH_SLOW_FACTOR times as
// long, for emulated guests.
func Slow(d time.Duration) time.Duration {
	n, err := strconv.Atoi(os.Getenv("TOLBOOTH_SLOW_FACTOR"))
	if err != nil || n < 1 {
		return d
	}
	return time.Duration(n) * d
}
