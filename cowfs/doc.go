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
//	/            overlay, detached: lower = skeleton, upper = STATE/run/RANDOM/upper
//	/usr         overlay of the job's own over the node's /usr, without an upper: read-only, nosuid, nodev, without the mounts
//	             below it. A clone of the node's mount where no overlay can be stacked any more
//	/dev         a tmpfs of the job's own with six device nodes, then read-only for good
//	/proc /tmp /run /dev/shm /dev/pts   made inside the jail by its init
//
// The skeleton is two read-only layers. A slot has a small one of its own: the links /bin, /lib and such exactly as the
// node has them, empty directories, passwd, group and the like. It belongs to the slot's ids on the disk, so no idmapped
// mount is needed anywhere and nothing that the jail could unlock maps back to the host's root. Below it lies one for all
// jails with chosen parts of the node's /etc (hundreds of links and certificates): root's, which to a jail is nobody's, as
// everything in /usr is.
package cowfs
