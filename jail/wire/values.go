package wire

// Tmpfs is a memory file system made inside the jail. Bytes is its size limit; 0 is refused.
type Tmpfs struct {
	Target string `json:"target"`
	Bytes  int64  `json:"bytes"`
	Inodes int64  `json:"inodes"` // 0: the kernel's default, half the number of pages of memory
	Mode   uint32 `json:"mode"`   // with the sticky bit: 01777
	UID    uint32 `json:"uid"`    // jail ids
	GID    uint32 `json:"gid"`
}

// Rlimit is one resource limit, soft and hard alike.
type Rlimit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// Landlock lists the directories below which files may be changed; everything may be read and executed.
type Landlock struct {
	Write []string `json:"write"`
}

// Cause says what ended a run, as the warden saw it.
type Cause string

// The causes. A start failure is a Cause too: the command never ran, Step and Error say why.
const (
	CauseExit        Cause = "exit"
	CauseSignal      Cause = "signal"
	CauseWall        Cause = "wall"
	CauseCPU         Cause = "cpu"
	CauseMemory      Cause = "memory"
	CausePids        Cause = "pids"
	CauseNetlink     Cause = "netlink" // its netlink sockets held more than NetlinkBytes
	CauseOutput      Cause = "output"
	CauseDisk        Cause = "disk" // Cancel with this cause, by the agent
	CauseCancelled   Cause = "cancelled"
	CauseStartFailed Cause = "start_failed"
	CauseLost        Cause = "lost" // the warden or init died, or the run could no longer be recorded
)

// NetlinkBytes is what a job's netlink sockets may hold that nobody has read. The kernel charges such messages to nobody: 400
// sockets held 2.8 GB under a memory limit of 64 MiB. Who asks for addresses reads the answer, some 10 KB, at once.
const NetlinkBytes = 16 << 20

// Exit is how a run ended.
type Exit struct {
	Cause       Cause  `json:"cause"`
	Code        int    `json:"code"`            // exit code of the program, when it exited
	Signal      int    `json:"signal,omitzero"` // that killed it, when it was killed
	Step        string `json:"step,omitzero"`   // which step of the start failed, or what was lost
	Error       string `json:"error,omitzero"`
	Errno       int    `json:"errno,omitzero"`
	StdoutBytes int64  `json:"stdout_bytes"` // printed, kept or not
	StderrBytes int64  `json:"stderr_bytes"`
	Truncated   bool   `json:"truncated"`
	Orphans     int64  `json:"orphans"`    // processes still alive when the program ended
	Suppressed  int64  `json:"suppressed"` // refused calls beyond the ones recorded
	Landlock    int    `json:"landlock"`   // ABI used, 0: none
	CoreSched   bool   `json:"core_sched"` // no other jail shared a core with it
	ExitKill    bool   `json:"exit_kill"`  // the kernel kills the jail when the warden dies, by ptrace
	WardenUS    int64  `json:"warden_us"`  // CPU time of the warden since the program's execve
	StartUS     int64  `json:"start_us"`   // from Start to the program's execve
	RunUS       int64  `json:"run_us"`     // from execve to its end
}

// Denial is one refused system call as the warden saw it. Naming it is the agent's work (package explain): the warden
// stays small and never reads the memory of what it traces. A refusal that repeats has one record when it is first seen
// and one at the end of the run; the counts of both add up.
type Denial struct {
	Arch    uint32    `json:"arch"` // AUDIT_ARCH_*
	NR      int       `json:"nr"`
	Args    [6]uint64 `json:"args"` // of the first refusal
	Errno   int       `json:"errno"`
	PID     int       `json:"pid"` // as the jail sees it, 0 when not known
	Program string    `json:"program"`
	AtUS    int64     `json:"at_us"` // of the first refusal, microseconds since the run was admitted
	Count   int64     `json:"count"`
}
