// Package cgroup makes and drives the control groups of jails: on cgroup v2, and on hosts where the memory, pids and cpu
// controllers still sit on v1 while the v2 tree offers kill and freeze (hybrid). Standard library and x/sys only, since
// the warden links it too.
package cgroup

import "time"

// Group names the directories of one job's control group, one per controller. It is plain data: the agent makes it, the
// warden uses it. On a pure v2 host all fields but Unified are empty and every controller is at Unified.
type Group struct {
	Unified string `json:"unified"`          // v2 directory: kill, freeze, membership by fd, BPF; and all controllers on pure v2
	Memory  string `json:"memory,omitzero"`  // v1
	Pids    string `json:"pids,omitzero"`    // v1
	CPU     string `json:"cpu,omitzero"`     // v1 (cfs quota)
	CPUAcct string `json:"cpuacct,omitzero"` // v1 (usage); may equal CPU
}

// Limits of one group. Zero means no limit.
type Limits struct {
	MemoryBytes int64
	Pids        int64
	CPUs        float64 // CPUs' worth of time per second
}

// Usage read from a group.
type Usage struct {
	CPU             time.Duration
	MemoryPeakBytes int64
	PidsPeak        int64
	OOMKills        int64 // processes the kernel killed for this group's memory limit
	PidsRefused     int64 // forks refused by the pids limit
}
