package probe

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// coreSchedulingLayer asks for a core of its own, for a thread that ends with the probe.
func coreSchedulingLayer(host settings) Layer {
	const name = "core-scheduling"
	if !host.siblings() {
		return ok(name, "not needed: no core of this machine runs two threads at once")
	}
	err := inThread(func() error {
		return unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE, 0, 0, 0)
	})
	if err == nil {
		return ok(name, "no two jails on one core")
	}
	return missing(name, fmt.Sprintf("prctl (PR_SCHED_CORE_CREATE): %v", err),
		"use a kernel with CONFIG_SCHED_CORE (5.14 or newer), or boot with nosmt; without it jails may share a core's caches at the same moment")
}
