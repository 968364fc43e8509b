package agent

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	seccomp "github.com/tolbooth-dev/tolbooth/jail/filter"
)

// spine takes jobs through their lives. Its parts are interfaces of one or two verbs, declared here at their consumer;
// build.go fills in the real ones, tests fill in fakes.
type spine struct {
	log       *slog.Logger
	faults    *faults
	steps     *steps
	limit     time.Duration // of a step that goes into the kernel
	flushes   *flushes
	limitsMax limits
	grace     time.Duration // between TERM and KILL of a cancelled job
	filters   *seccomp.Cache
	engine    jail.Engine
	extras    []string // of policies that the node permits
	egress    string   // the hook by which the kernel judges packets; empty: it judges none

	places placeTaker
	trees  treeMaker
	nets   plugger
	disk   *diskWatch
	files  cowfs.Support // what the trees are like on this node
	cpus   *cpuSpread

	undoing sync.WaitGroup // undo stacks that run behind finished jobs
}

// placeTaker hands out places for jobs.
type placeTaker interface {
	Take(ctx context.Context, w *work) (*place, error)
}

// treeMaker makes the file tree of a job, its request's files included.
type treeMaker interface {
	Make(ctx context.Context, w *work, p *place) (tree, error)
}

// plugger connects a place to the network as far as its job may talk, and watches what is refused.
type plugger interface {
	Plug(w *work, p *place, deny func(api.Denial)) (plug, error)
}

// tree is a job's file tree.
type tree interface {
	rooted
	DiskUsage(ctx context.Context) (bytes, inodes int64, err error)
	Quota() bool // the file system holds the job to its disk limits
	Glob(ctx context.Context, patterns []string) ([]cowfs.FileInfo, error)
	Remove(path string) error
	ReadFile(path string, limit int64) ([]byte, cowfs.FileInfo, error)
	Flush(ctx context.Context, job string) (snapshot string, err error)
	Park(reason error) error // keeps the unflushed workspace on this node
	Discard() error
}

// rooted is what a jail's root is made of.
type rooted interface {
	Root() *os.File
	Mounts() []cowfs.Mount
}

// plug is a job's connection to the network.
type plug interface {
	Rewire(n network) (cut int, err error)
	Denials() []api.Denial
	Traffic() (traffic, error)
	Close() error
}

// group is the control group of a place.
type group interface {
	SetLimits(cgroup.Limits) error
	Usage() (cgroup.Usage, error)
	Kill() error
	Populated() (bool, error)
	WaitEmpty(timeout time.Duration) error
	Processes() ([]int, error)
	Hold() error
	Frozen() (bool, error)
	Thaw() error
	Remove() error
}

// cell is a prepared jail: warden and init wait.
type cell interface {
	Build(ctx context.Context, r jail.Root) error
	Start(ctx context.Context, s jail.Spec) (running, error)
}

// running is a started command.
type running interface {
	Signal(syscall.Signal) error
	Cancel(jail.Cause)
	Kill(jail.Cause)
	Wait(ctx context.Context) (jail.Exit, error)
}

// flushTimeout bounds one flush, so that a store that hangs does not hold a job's result for ever.
const flushTimeout = 10 * time.Minute
