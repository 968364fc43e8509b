package agent

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
	"github.com/tolbooth-dev/tolbooth/netns/resolver"
)

// work is one admitted job on its way through run: checked, with every default filled in and nothing left to decide.
// The manager makes it from a request; run reads it.
type work struct {
	ID        string
	Admitted  time.Time
	Peer      peer // who sent the request
	Mode      jail.Mode
	Policy    policy.Policy
	Command   []string
	Env       []string // complete: request over documented defaults
	Cwd       string   // absolute in the jail
	Files     []inputFile
	Stdin     *os.File // nil: EOF at once
	Workspace string   // empty: ephemeral
	Outputs   []string
	Limits    limits
	Network   network
	MinGrade  string
	Labels    map[string]string
	Spool     *os.File // opened for append; run hands it to the warden and never closes it
	SpoolPath string
}

// inputFile is one decoded file of the request.
type inputFile struct {
	Path string // relative to /workspace, or absolute in the jail
	Data []byte
	Mode os.FileMode

	// Scratch is the request's code: run removes the file once the command has ended, before outputs are collected and
	// the workspace is flushed.
	Scratch bool
}

// limit is one resolved limit: the value in force and who set it (request, tenant, node, default).
type limit[T any] struct {
	Value T
	SetBy string
}

// limits are a job's limits as they will be enforced. Sizes in bytes.
type limits struct {
	Wall, CPU                 limit[time.Duration]
	CPUs                      limit[float64]
	Memory, Disk, Shm, Output limit[int64]
	Pids, Inodes, OpenFiles   limit[int64]
}

// network is a job's egress policy.
type network struct {
	Mode   string // none, allow, open
	Policy bpf.Policy
	Names  resolver.Rules
	Allow  []string // the request's own texts of the rules, by address and by name, for fixes that add to them
	Deny   []string
	Rate   int64 // bits per second in each direction; 0: no bound
	Budget int64 // bytes, sent and received together; 0: no bound
}

// process is what may be done to a job's running command from outside.
type process interface {
	Signal(syscall.Signal) error
	Rewire(n network) (cut int, err error)
}

// progress is how run tells its caller where a job stands.
type progress interface {
	Enter(api.State)
	Started(process)  // the command runs; called once, before Enter(running)
	Deny(api.Denial)  // a denial that the agent itself saw (network, limit)
	Notify() *os.File // eventfd that the warden writes after each record
}

// runner takes one admitted job through its life. It returns only when nothing of the job is left running; a cancelled
// ctx ends the job (TERM, grace, KILL) with outcome cancelled. Cause of cancellation: context.Cause(ctx).
type runner interface {
	Run(ctx context.Context, w *work, p progress) api.Result
}
