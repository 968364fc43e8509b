// Package probe finds out what this machine can do for jails, by trying it: a version number promises nothing on a
// patched or locked-down kernel.
//
// It owns no kernel object after it returns: namespaces, links, filters and programs are made in threads and processes
// that end with the probe, mounts are never attached, directories and control groups are removed again. It never decides
// policy beyond the table of what each jail mode needs (modes.go), changes no setting, and runs no program except the
// language interpreters, which it asks for their version.
//
// Callers: `tolbooth doctor`, and the agent at start for /health and /v1/node. No privilege is needed: what a missing
// one prevents is what the report says. Kernel: any. A probe takes a fraction of a second; one that the
// kernel does not answer is given up after some seconds and stays behind in its thread (deadline.go). The processes that it starts
// are reaped by it, so nothing else may reap children (wait4 with pid -1) meanwhile. Run may be called from many
// goroutines.
package probe
