// Package smoke proves that the virtual machine of integration/vm is the node that the other tests take it for: cgroup
// v2 with every controller, the clsact way of attaching programs, overlayfs with a writable upper, and the right kernel.
// It holds tests only, and owns nothing: what a test makes, it removes. It runs as root, in the guest, one test at a
// time; on any other machine the tests that do not apply are skipped by name.
package smoke
