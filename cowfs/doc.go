// Package cowfs makes the file tree of one job: a copy-on-write view over the node's own system, and the named
// workspaces that outlive a job by being flushed to object storage.
//
// Owns: everything below the state directory's run, skel, parked and trash, and every key below its prefix in the bucket.
//
// Never does: it starts no process, speaks to no network but the store it was given, attaches no mount anywhere in the
// host's mount namespace (a killed agent leaves nothing mounted), and resolves no path of a job's tree by name on the
// host: hostile trees are entered through descriptors only.
//
// Called by: the agent, once per job: Create, WriteFile, hand Root and Mounts to the jail, Glob, ReadFile, Flush, Discard.
//
// Privileges: CAP_SYS_ADMIN in the initial user namespace (mounts, trusted.* xattrs), CAP_CHOWN, CAP_DAC_OVERRIDE,
// CAP_FOWNER, CAP_MKNOD (device nodes, whiteouts), CAP_SETFCAP (file capabilities on restore). Kernel 5.15 or newer.
//
// Lifetime: a Manager lives as long as the agent. A Tree is released by exactly one of Discard and Park; both may be
// called twice. The descriptors that a Tree hands out are the Tree's: dup them to keep them.
//
// Concurrency: a Manager may be used by any number of goroutines. One Tree belongs to one job; its file methods may run
// beside each other and beside the jail, but Flush, Park and Discard need every process of the job to be gone.
//
// # The tree of one job
//
//	/            overlay, detached: lower = skeleton of the slot, upper = STATE/run/RANDOM/upper
//	/usr         clone of the node's /usr: read-only, nosuid, nodev, without the mounts below it
//	/dev         a tmpfs of the job's own with six device nodes, then read-only for good
//	/proc /tmp /run /dev/shm /dev/pts   made inside the jail by its init
//
// The skeleton is a few hundred small entries: the links /bin, /lib and such exactly as the node has them, empty
// directories, and chosen files of /etc. Each slot has one of its own because its files belong to the slot's ids on the
// disk: no idmapped mount is needed anywhere, so nothing that the jail could unlock maps back to the host's root.
package cowfs
