// Package hosttest is for tests that depend on the machine: it says what a test needs, counts what is skipped for want of
// it, and checks that a package's tests leave nothing behind.
//
// A skip is a claim about the machine, so it has a name and a reason and goes through Need, never through a bare t.Skip.
// Each is appended, one line "name<TAB>reason<TAB>package<TAB>test", to the file named in $TOLBOOTH_SKIPS, where
// `make test` counts them.
//
// It never changes the host: Netns works in a namespace of its own. Callers: tests only. Privileges: none itself; Root and
// Netns skip without uid 0. Lifetime: what it makes is gone when Main returns.
//
// Environment: TOLBOOTH_SKIPS (above); TOLBOOTH_UNIT=1, leave tests that need root out; TOLBOOTH_JAIL, a tolbooth-jail
// binary to use instead of building one (in the VM, where there is no Go); TOLBOOTH_ALONE=1, set by make: no other test
// of this session runs on this machine, so that a leftover which any process could have made (cgroup, veth, BPF pin)
// fails the package instead of being a warning. What belongs to agents of other sessions is left out (neighbours.go).
package hosttest
