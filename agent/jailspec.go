package agent

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// writable are the directories below which a job's program may change anything: its own, and the kernel's own objects
// (devices, its processes' files in proc), which have their own permissions.
var writable = []string{"/workspace", "/tmp", "/var/tmp", "/run", "/dev", "/proc"}

// jailSpec is the command of a job in the words of package jail. Quota: the file system itself holds the job to its disk limits.
func (s *spine) jailSpec(w *work, p *place, quota bool, cpus []int, notify *os.File) (jail.Spec, error) {
	l, change := w.Limits, w.Policy.Change()
	spec := jail.Spec{
		Resize: p.resize(memoryOf(w.Limits)), Shown: p.show(cpus), CPUs: cpus, Command: w.Command, Env: w.Env, Cwd: w.Cwd, UID: jobUID, GID: jobGID,
		Stdin: w.Stdin, Spool: w.Spool, Notify: notify, Started: w.Admitted,
		Wall: l.Wall.Value, CPU: l.CPU.Value, Output: l.Output.Value, Grace: s.grace,
		Landlock:     &jail.Landlock{Write: writable},
		RawSocket:    slices.Contains(change.Extras, policy.RawSocket),
		UserNS:       slices.Contains(change.Extras, policy.UserNS),
		BaseExecOnly: slices.Contains(change.Deny, policy.DenyExecOutsideBase),
		Rlimits: []jail.Rlimit{
			{Resource: unix.RLIMIT_NOFILE, Value: uint64(l.OpenFiles.Value)},
			{Resource: unix.RLIMIT_FSIZE, Value: uint64(l.Disk.Value)}, // no write outgrows the limit between two looks at the disk
		},
	}
	if spec.UserNS {
		spec.Landlock = nil // it refuses every mount
	}
	if w.Mode != jail.Syd {
		return spec, nil
	}
	rules := w.Policy
	if quota {
		rules = rules.Reserving()
	}
	var err error
	spec.Filter, err = s.filters.Get(rules)
	return spec, err
}

// memoryOf are the memory file systems of a job with these limits. What is in them counts against the memory limit; half of
// it in /tmp leaves room for the program.
func memoryOf(l limits) []jail.Tmpfs {
	return []jail.Tmpfs{
		{Target: "/tmp", Bytes: l.Memory.Value / 2, Inodes: l.Inodes.Value, Mode: 0o1777},
		{Target: "/run", Bytes: l.Memory.Value / 8, Inodes: l.Inodes.Value, Mode: 0o755, UID: jobUID, GID: jobGID},
		{Target: "/dev/shm", Bytes: l.Shm.Value, Inodes: l.Inodes.Value, Mode: 0o1777},
	}
}

func (w *work) cgroupLimits() cgroup.Limits {
	return cgroup.Limits{MemoryBytes: w.Limits.Memory.Value, Pids: w.Limits.Pids.Value, CPUs: w.Limits.CPUs.Value}
}

// hostNetwork reports whether the job runs in the agent's own network namespace: only the minimal mode can, and only when
// its request opens the network.
func (w *work) hostNetwork() bool { return w.Mode == jail.Minimal && w.Network.Mode == "open" }
