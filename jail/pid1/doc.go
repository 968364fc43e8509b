// Package pid1 is process 1 of a jail (Go refuses a package named init). It builds the job's root from mounts that the agent
// made, starts launch, reaps, and waits for the warden's end.
//
// It runs as the jail's uid 0, which no program of the job ever is, is not dumpable, and reads nothing that the job can write
// except the job's own directory tree while it attaches mounts to it. That tree is hostile when a workspace was restored: each
// place is opened below the root without following a symlink, and the mount goes onto that descriptor.
//
// What the root shows of the node: of /proc a list of files (see shown), /proc/sys read-only, of /sys only the CPUs that the job
// may use. Node's os.cpus() and whatever else counts the lines of /proc/stat or /proc/cpuinfo still sees the node's CPUs: a copy
// would have to be kept current, and a file that stands still is worse than one that is too long.
//
// Until the program starts the warden may have the root changed once more (see change.go): by then the job is known. It starts
// from the strictest: no namespace of any kind can be made in the jail.
//
// Caller: the role `init` of tolbooth-jail, cloned by the warden into new user, mount, pid, ipc and uts namespaces, in the
// job's cgroup. Descriptor 3 is its socket to the warden, 4 the socket it hands to launch. Privileges: all capabilities of
// its own user namespace, none outside. Kernel: 5.15 (new mount API, openat2, mount_setattr).
//
// Lifetime: it ends with the warden (parent-death signal, or the socket closes), and everything in the jail with it.
// Concurrency: the main goroutine is locked to the main thread; one more goroutine reaps.
package pid1
