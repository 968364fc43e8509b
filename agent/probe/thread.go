package probe

import "runtime"

// inThread runs probe on an OS thread of its own that ends with it: what probe does to its thread (filters, namespaces,
// no_new_privs) is gone afterwards.
func inThread(probe func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		result <- probe()
	}()
	return <-result
}
