// Command tolbooth-container is process 1 of the agent's container: it mends the mounts that container runtimes make
// for ordinary programs, starts the agent, reaps what nobody else waits for, and ends with the agent's exit code.
//
//	tolbooth-container /usr/bin/tolbooth agent [FLAGS]
//
// A runtime hides parts of /proc and mounts /proc/sys, /sys and the cgroups read-only. An agent cannot work so: the kernel
// lets a jail have a /proc of its own only where an unmasked one is visible, jails need control groups, and the agent
// turns on forwarding in the container's own network namespace. A privileged container would have all of it, and a
// hundred things more; this does the few mounts with the SYS_ADMIN that the agent needs anyway. All of them are in the
// container's mount namespace and end with it.
//
// It never touches the node: outside a container it refuses to start. It changes nothing that is as it should be, says
// what it changed, and fails with the name of the mount when it cannot. Being process 1, its end is the end of everything
// in the container: a killed agent leaves no process. Needs CAP_SYS_ADMIN, kernel 5.15; one thread of control.
package main
