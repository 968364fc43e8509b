// Package jail confines one command. This file is its face towards the agent: plain values and files in, one Exit out.
package jail

import (
	"os"
	"time"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
)

// Mode is which plan a jail follows.
type Mode string

// The modes. Minimal has no syscall filter and no tracer.
const (
	Syd     Mode = "syd"
	Minimal Mode = "minimal"
)

// Place is where a jail lives: made before its job is known, so that a jail can be prepared ahead of time.
type Place struct {
	Mode     Mode
	UIDBase  uint32       // host id that the jail's id 0 maps to; 65536 ids are mapped
	Cgroup   cgroup.Group // the jail's processes are born in it
	Netns    *os.File     // network namespace; nil: the agent's own
	Hostname string
}

// Spec is one command in a prepared jail.
type Spec struct {
	Root     *os.File // detached overlay mount: becomes /
	Mounts   []Mount  // further detached mounts, attached below it in order
	Tmpfs    []Tmpfs  // private memory file systems that init makes
	Command  []string // argv; argv[0] is looked up in PATH of Env inside the jail when it has no slash
	Env      []string
	Cwd      string // absolute in the jail
	UID      uint32 // jail ids of the program
	GID      uint32
	Rlimits  []Rlimit
	Filter   []byte    // seccomp program (struct sock_filter array); required in Syd, must be empty in Minimal
	Landlock *Landlock // nil: none
	Stdin    *os.File
	Spool    *os.File      // opened for append: output, denials and the exit are written to it
	Notify   *os.File      // eventfd, written after each append
	Started  time.Time     // zero point of the spool's clock (CLOCK_MONOTONIC is carried over as an offset)
	Wall     time.Duration // 0: none
	CPU      time.Duration // 0: none
	Output   int64         // bytes kept of each stream
	Grace    time.Duration // between TERM and KILL on Cancel
}

// Mount is a detached mount handed into the jail.
type Mount struct {
	Target string // absolute in the jail
	File   *os.File
}

// Tmpfs is a memory file system made inside the jail. Bytes is its size limit; 0 is refused.
type Tmpfs struct {
	Target string `json:"target"`
	Bytes  int64  `json:"bytes"`
	Inodes int64  `json:"inodes"`
	Mode   uint32 `json:"mode"` // with the sticky bit: 01777
	UID    uint32 `json:"uid"`  // jail ids
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
	CauseOutput      Cause = "output"
	CauseDisk        Cause = "disk" // Kill with this cause, by the agent
	CauseCancelled   Cause = "cancelled"
	CauseStartFailed Cause = "start_failed"
	CauseLost        Cause = "lost" // the warden died
)

// Exit is how a run ended.
type Exit struct {
	Cause       Cause  `json:"cause"`
	Code        int    `json:"code"`            // exit code of the program, when it exited
	Signal      int    `json:"signal,omitzero"` // that killed it, when it was killed
	Step        string `json:"step,omitzero"`   // which step of the start failed
	Error       string `json:"error,omitzero"`
	Errno       int    `json:"errno,omitzero"`
	StdoutBytes int64  `json:"stdout_bytes"` // printed, kept or not
	StderrBytes int64  `json:"stderr_bytes"`
	Truncated   bool   `json:"truncated"`
	Orphans     int64  `json:"orphans"`    // processes still alive when the program ended
	Suppressed  int64  `json:"suppressed"` // refused calls beyond the ones recorded
	Landlock    int    `json:"landlock"`   // ABI used, 0: none
	StartUS     int64  `json:"start_us"`   // from Start to the program's execve
	RunUS       int64  `json:"run_us"`     // from execve to its end
}

// Denial is one refused system call as the warden saw it. Naming it is the agent's work (package explain): the warden
// stays small and never reads the memory of what it traces.
type Denial struct {
	Arch    uint32    `json:"arch"` // AUDIT_ARCH_*
	NR      int       `json:"nr"`
	Args    [6]uint64 `json:"args"`
	Errno   int       `json:"errno"`
	PID     int       `json:"pid"` // as the jail sees it, 0 when not known
	Program string    `json:"program"`
	AtUS    int64     `json:"at_us"`
	Count   int64     `json:"count"`
}
