package agent

import (
	"log/slog"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/probe"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// serverParts are what a Server needs from the spine.
type serverParts struct {
	Runner   runner
	Report   func() report                            // what is known of the node now; handlers call it, so it answers at once
	Words    func(record, []byte) (api.Denial, error) // words a warden's account of a call that it refused a job
	Fault    func(step string, err error)             // something went wrong in the agent: health shows it
	Programs []probe.Language                         // what the probe found
	Log      *slog.Logger
}

// report is what is known of the node.
type report struct {
	Kernel     string
	Arch       string
	Modes      map[jail.Mode]modeReport
	Engine     jail.Engine // of the mode syd
	Cgroup     api.Cgroup
	Filesystem api.FilesystemHealth
	Problems   []api.NodeProblem
	Blocked    bool // a step hangs that every job needs
	Figures    figures
}

// modeReport is one jail mode. Lacks is empty when it works, else it names the missing layer and why.
type modeReport struct {
	Lacks  string
	Grade  string
	Layers map[string]api.Layer
}

// figures are numbers of the spine that metrics show. Counters count from the start of the agent.
type figures struct {
	Quota        bool  // the file system holds jobs to their disk limits
	Prepared     int   // places ready for a job
	Unflushed    int   // workspaces whose work is parked on this node
	Reclaimed    int64 // leftovers of an earlier agent that were removed
	Flushes      int64
	FlushFaults  int64
	FlushedBytes int64
	Faults       int64
	Hanging      int   // steps that have not come back for long
	LeftBehind   int64 // steps that nobody waited for any longer
}
