// Package jail confines one command: plain values and files in, one Exit out. This is the agent's side; the processes that do
// the work are the roles of tolbooth-jail (packages warden, pid1 and launch), and wire is what they say to each other.
//
//	launcher, err := jail.NewLauncher("/usr/libexec/tolbooth-jail")
//	prepared, err := launcher.Prepare(ctx, place) // a warden and an init that wait
//	process, err := prepared.Start(ctx, spec)     // the program's execve has happened
//	exit, err := process.Wait(ctx)
//
// It owns the sealed copy of tolbooth-jail and every warden, from start to reaping. It never makes or removes a cgroup, a
// namespace or a mount, closes no file that it is given, and never reports a run as ended while a process of it is left.
//
// Caller: the agent, which should be a child subreaper (PR_SET_CHILD_SUBREAPER): when a warden is killed, the jail's init
// becomes the agent's child and is waited for here. Only children in the wardens' own process groups are waited for, so
// others of the agent are left alone. Privileges: root; kernel 5.15, cgroup v2 mounted (hybrid is enough).
//
// Lifetime: a Prepared ends by Start or Close, a Process by itself or by Cancel; Launcher.Wait waits
// for the last warden, Launcher.Close only drops the sealed copy. A
// warden outlives the agent and finishes its job. Concurrency: a Launcher and a Process may be used by many goroutines, a
// Prepared by one.
package jail
