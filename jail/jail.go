package jail

import (
	"os"
	"time"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// The values that cross to the warden, as package wire defines them.
type (
	Mode     = wire.Mode     // which plan a jail follows
	Engine   = wire.Engine   // how the warden learns of refused calls
	Tmpfs    = wire.Tmpfs    // a memory file system made inside the jail
	Rlimit   = wire.Rlimit   // one resource limit
	Landlock = wire.Landlock // the directories below which files may be changed
	Cause    = wire.Cause    // what ended a run
	Exit     = wire.Exit     // how a run ended
	Denial   = wire.Denial   // one refused system call
)

// The modes.
const (
	Syd     = wire.Syd
	Minimal = wire.Minimal
)

// The engines.
const (
	Notify = wire.Notify
	Ptrace = wire.Ptrace
)

// The causes.
const (
	CauseExit        = wire.CauseExit
	CauseSignal      = wire.CauseSignal
	CauseWall        = wire.CauseWall
	CauseCPU         = wire.CauseCPU
	CauseMemory      = wire.CauseMemory
	CausePids        = wire.CausePids
	CauseNetlink     = wire.CauseNetlink
	CauseOutput      = wire.CauseOutput
	CauseDisk        = wire.CauseDisk
	CauseCancelled   = wire.CauseCancelled
	CauseStartFailed = wire.CauseStartFailed
	CauseLost        = wire.CauseLost
)

// NetlinkBytes is what a job's netlink sockets may hold unread.
const NetlinkBytes = wire.NetlinkBytes

// Place is where a jail lives: made before its job is known, so that a jail can be prepared ahead of time.
type Place struct {
	Mode     Mode
	Engine   Engine       // required in Syd, must be empty in Minimal
	UIDBase  uint32       // host id that the jail's id 0 maps to; 65536 ids are mapped
	Cgroup   cgroup.Group // the jail's processes are born in it; new, since a group that was killed kills what is cloned into it (seen on 6.18)
	Netns    *os.File     // network namespace; nil: the agent's own
	Hostname string       // empty: "sandbox"; never the node's
}

// Root is the root file system of a jail.
type Root struct {
	Mount  *os.File // detached overlay mount: becomes /
	Mounts []Mount  // further detached mounts, attached below it in order
	Tmpfs  []Tmpfs  // private memory file systems that init makes
	CPUs   []int    // that /sys shows, by number; empty: none, and programs that look there find nothing
}

// Spec is one command in a jail whose root is built.
type Spec struct {
	Resize       []Tmpfs  // memory file systems of the root that get other limits, by Target; only Bytes and Inodes count
	Shown        []int    // CPUs that /sys shows; none: as the Root said
	CPUs         []int    // that the program may run on, by number; none: those of the caller
	Command      []string // argv; argv[0] is looked up in PATH of Env inside the jail when it has no slash
	Env          []string
	Cwd          string // absolute in the jail
	UID          uint32 // jail ids of the program
	GID          uint32
	Rlimits      []Rlimit
	Filter       []byte        // seccomp program (struct sock_filter array); required in Syd, must be empty in Minimal
	Landlock     *Landlock     // nil: none
	RawSocket    bool          // programs may open raw IP sockets where Filter says "broker"; needs Notify and a Netns
	UserNS       bool          // programs may make user namespaces, and others in them
	BaseExecOnly bool          // nothing below Landlock.Write is executed; without Landlock the start fails
	Stdin        *os.File      // nil: the jail's /dev/null. A pipe, socket or memfd: a file of the node could not be reopened inside
	Spool        *os.File      // required, opened for append: output, denials and the exit are written to it
	Notify       *os.File      // non-blocking eventfd, written after each append; nil: none
	Started      time.Time     // zero point of the spool's clock (CLOCK_MONOTONIC is carried over as an offset)
	Wall         time.Duration // 0: none
	CPU          time.Duration // 0: none
	Output       int64         // bytes kept of each stream
	Grace        time.Duration // between TERM and KILL on Cancel
}

// Mount is a detached mount handed into the jail.
type Mount struct {
	Target string // absolute in the jail
	File   *os.File
}
