// Package container runs the agent as a container runtime would on a node with cgroup v2: in pid, mount, network and
// cgroup namespaces of its own, with masked /proc and read-only cgroups, below tolbooth-container, in a group of its own
// with nobody else in it. The two-node cluster of docs/kubernetes.md has v1 controllers; this is for the other kind.
//
// It holds tests only. They run as root in the guest of integration/vm, start one agent, and remove its control group.
package container
