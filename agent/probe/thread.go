package probe

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// inThread runs probe on an OS thread of its own that ends with it: what probe does to its thread (filters, namespaces,
// no_new_privs) is gone afterwards. The process's main thread would not end but be parked with all of it, and stand for
// the process in /proc/self: so when the scheduler offers it, another one is taken.
func inThread(probe func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			result <- inThread(probe)
			runtime.UnlockOSThread()
			return
		}
		result <- probe() // still locked: the thread ends with the goroutine
	}()
	return <-result
}
