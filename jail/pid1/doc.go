// Package pid1 is process 1 of a jail (Go refuses a package named init). It builds the job's root from mounts that the agent
// made, starts launch, reaps, and waits for the warden's end.
//
// It runs as the jail's uid 0, which no program of the job ever is, is not dumpable, and reads nothing that the job can write
// except the job's own directory tree while it attaches mounts to it. That tree is hostile when a workspace was restored: each
// place is opened below the root without following a symlink, and the mount goes onto that descriptor.
//
// Caller: the role `init` of tolbooth-jail, cloned by the warden into new user, mount, pid, ipc and uts namespaces, in the
// job's cgroup. Descriptor 3 is its socket to the warden, 4 the socket it hands to launch. Privileges: all capabilities of
// its own user namespace, none outside. Kernel: 5.15 (new mount API, openat2, mount_setattr).
//
// Lifetime: it ends with the warden (parent-death signal, or the socket closes), and everything in the jail with it.
// Concurrency: the main goroutine is locked to the main thread; one more goroutine reaps.
package pid1
