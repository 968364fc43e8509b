// Package cgroup makes and drives the control groups of jails: on cgroup v2, and on hosts where the memory, pids and cpu
// controllers still sit on v1 while the v2 tree offers kill, freeze and CPU time (hybrid).
//
// It owns one directory per hierarchy, `<agent's own group>/<name>`, and everything below it. On pure v2 it owns
// `<name>.agent` beside it as well, where the agent itself goes. It never touches a group or a process that is not the
// agent's, and never reports a limit as set that the kernel did not take: a controller that is missing makes SetLimits
// fail.
//
// Callers: the agent opens a Parent and makes a Group per job; the warden is handed the Group (plain data) and enters,
// watches, freezes and kills it. Privileges: write access to the agent's own group (root, or a delegated subtree); on
// v1 root. Kernel: 5.15; cgroup.kill (5.14), memory.peak (5.19) and pids.peak (6.1) are used where they exist.
// Lifetime: Group.Remove when a job ends, Parent.Close when the agent leaves for good; after a crash the next
// OpenParent with the same name finds the old groups and Sweep removes them. All methods may be used by many
// goroutines at once, but one Group has one owner. Standard library and x/sys only, since tolbooth-jail links it.
package cgroup
