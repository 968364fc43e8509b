package api

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// JobRequest is the body of POST /v1/jobs. Every field is optional save one of Command or Language with Code.
type JobRequest struct {
	ID            string            `json:"id,omitzero"`
	Command       []string          `json:"command,omitzero"`
	Language      string            `json:"language,omitzero"`
	Code          string            `json:"code,omitzero"`
	Files         []File            `json:"files,omitzero"`
	Stdin         Stdin             `json:"stdin,omitzero"`
	StdinEncoding string            `json:"stdin_encoding,omitzero"`
	Env           map[string]string `json:"env,omitzero"`
	Cwd           string            `json:"cwd,omitzero"`
	TTY           bool              `json:"tty,omitzero"`
	Base          string            `json:"base,omitzero"`
	Jail          string            `json:"jail,omitzero"`
	MinGrade      string            `json:"min_grade,omitzero"`
	Workspace     string            `json:"workspace,omitzero"`
	Outputs       []string          `json:"outputs,omitzero"`
	Limits        Limits            `json:"limits,omitzero"`
	Network       Network           `json:"network,omitzero"`
	Policy        Policy            `json:"policy,omitzero"`
	Labels        map[string]string `json:"labels,omitzero"`
	Wait          *bool             `json:"wait,omitzero"` // nil is true
}

// File is one file put into the workspace before the job starts, or taken out of it after. Path is relative to the
// workspace, or absolute in the jail.
type File struct {
	Path     string `json:"path"`
	Content  string `json:"content,omitzero"`
	Encoding string `json:"encoding,omitzero"` // utf-8 (default) or base64
	Mode     string `json:"mode,omitzero"`     // octal, default 0644
}

// Stdin is either text, or {"open": true}: a pipe that POST /v1/jobs/{id}/stdin feeds.
// Absent and empty both mean EOF at once.
type Stdin struct {
	Text string
	Open bool
}

// Limits bound one job. Zero means: the node's default. Sizes are Kubernetes quantities, times Go durations.
type Limits struct {
	Wall      Duration `json:"wall,omitzero"`
	CPU       Duration `json:"cpu,omitzero"`
	CPUs      float64  `json:"cpus,omitzero"`
	Memory    Quantity `json:"memory,omitzero"`
	Pids      int64    `json:"pids,omitzero"`
	Disk      Quantity `json:"disk,omitzero"`
	Inodes    int64    `json:"inodes,omitzero"`
	Shm       Quantity `json:"shm,omitzero"`
	Output    Quantity `json:"output,omitzero"` // bytes kept of each of stdout and stderr
	OpenFiles int64    `json:"open_files,omitzero"`
}

// Network is a job's egress policy. Deny outranks Allow; cloud metadata is always denied.
type Network struct {
	Mode   string   `json:"mode,omitzero"` // none (default), allow, open
	Allow  []string `json:"allow,omitzero"`
	Deny   []string `json:"deny,omitzero"`
	Rate   Quantity `json:"rate,omitzero"`   // bits per second
	Budget Quantity `json:"budget,omitzero"` // total bytes
}

// Policy changes the syscall policy: Extras ask for named permissions that the node's configuration must permit, Deny
// only tightens.
type Policy struct {
	Extras []string `json:"extras,omitzero"`
	Deny   []string `json:"deny,omitzero"`
}

// State is where a job is in its life.
type State string

// The states of a job, in order.
const (
	StateQueued   State = "queued"
	StateStarting State = "starting"
	StateRunning  State = "running"
	StateFinished State = "finished"
)

// Job is a job as the API shows it. Result is nil until State is finished.
type Job struct {
	ID         string            `json:"id"`
	State      State             `json:"state"`
	Result     *Result           `json:"result"`
	CreatedAt  time.Time         `json:"created_at"`
	FinishedAt *time.Time        `json:"finished_at"`
	Labels     map[string]string `json:"labels"`
}

// Outcome says in one word how a job ended.
type Outcome string

// The outcomes of a job.
const (
	OutcomeOK          Outcome = "ok"
	OutcomeExit        Outcome = "exit"
	OutcomeSignal      Outcome = "signal"
	OutcomeWallLimit   Outcome = "wall_limit"
	OutcomeCPULimit    Outcome = "cpu_limit"
	OutcomeMemoryLimit Outcome = "memory_limit"
	OutcomeDiskLimit   Outcome = "disk_limit"
	OutcomePidsLimit   Outcome = "pids_limit"
	OutcomeOutputLimit Outcome = "output_limit"
	OutcomeDenied      Outcome = "denied"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeStartFailed Outcome = "start_failed"
	OutcomeAgentLost   Outcome = "agent_lost"
)

// Result is everything that is known of a finished job.
type Result struct {
	Outcome     Outcome    `json:"outcome"`
	Detail      string     `json:"detail,omitzero"` // one sentence, for outcomes that need one (start_failed, agent_lost, limits)
	ExitCode    *int       `json:"exit_code"`
	Signal      *string    `json:"signal"`
	Limit       *Limit     `json:"limit"`
	Stdout      string     `json:"stdout"`
	Stderr      string     `json:"stderr"`
	Encoding    string     `json:"encoding"` // of stdout and stderr: utf-8, or base64 when either is not UTF-8
	StdoutBytes int64      `json:"stdout_bytes"`
	StderrBytes int64      `json:"stderr_bytes"`
	Truncated   bool       `json:"truncated"`
	Outputs     []Output   `json:"outputs"`
	Denials     []Denial   `json:"denials"`
	Isolation   Isolation  `json:"isolation"`
	Effective   *Effective `json:"effective"` // what the job was held to; null: its agent was killed, or its turn never came
	Usage       Usage      `json:"usage"`
	Timings     Timings    `json:"timings_us"`
	Snapshot    *string    `json:"snapshot"`
}

// Limit names the limit that ended a job.
type Limit struct {
	Name  string `json:"name"`  // the key in Limits
	Value string `json:"value"` // as a request would write it
	SetBy string `json:"set_by"`
}

// Output is a file of the workspace that a request's outputs globs matched. Content is empty and Encoding "" when the
// file is over the size cap; then it is listed only.
type Output struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Mode     string `json:"mode"`
	Content  string `json:"content,omitzero"`
	Encoding string `json:"encoding,omitzero"`
	Omitted  string `json:"omitted,omitzero"` // why the content is not here
}

// Denial is one refused attempt, or several alike.
type Denial struct {
	Layer   string         `json:"layer"` // syscall, network, dns, file, limit, signal
	What    string         `json:"what"`
	Rule    string         `json:"rule"`
	Errno   string         `json:"errno"`
	Count   int64          `json:"count"`
	PID     int            `json:"pid"` // as the jail sees it, 0 when not known
	Program string         `json:"program"`
	Fix     jsontext.Value `json:"fix"` // a merge patch for the request, or null
	Why     string         `json:"why"` // one sentence: why it is refused, and what else could be done
	AtMS    int64          `json:"at_ms"`

	// Evidence is kernel when the kernel or tolbooth saw it, output when the program's own error message said so and a
	// rule agrees with it.
	Evidence string `json:"evidence,omitzero"`
}

// Isolation is what a run really had.
type Isolation struct {
	Mode    string   `json:"mode"`
	Grade   string   `json:"grade"`
	Layers  []string `json:"layers"`
	Missing []string `json:"missing"`
	Extras  []string `json:"extras"` // what the run's policy permitted beyond the default
}

// Effective is what a run is held to, with everything filled in that the request left open.
type Effective struct {
	Env     []string `json:"env"`     // the names of all variables that the command is started with
	Limits  []Limit  `json:"limits"`  // every limit that there is, and who set it
	Network Network  `json:"network"` // as the job was started; PUT /v1/jobs/{id}/network may have replaced it
	Policy  Policy   `json:"policy"`
}

// Usage is what a job used.
type Usage struct {
	WallMS          int64 `json:"wall_ms"`
	CPUMS           int64 `json:"cpu_ms"`
	MemoryPeakBytes int64 `json:"memory_peak_bytes"`
	PidsPeak        int64 `json:"pids_peak"`
	DiskBytes       int64 `json:"disk_bytes"`
	NetTxBytes      int64 `json:"net_tx_bytes"`
	NetRxBytes      int64 `json:"net_rx_bytes"`
	OrphansKilled   int64 `json:"orphans_killed"`

	Flows        []Flow `json:"flows"`          // by bytes, most first
	FlowsLeftOut int64  `json:"flows_left_out"` // packets and refusals that no flow of the list counts
}

// Flow is what a job sent to and received from one far end. Bytes count packet headers.
type Flow struct {
	Destination string `json:"destination"`   // address
	Port        int    `json:"port"`          // 0 for ICMP
	Protocol    string `json:"protocol"`      // tcp, udp, icmp
	Verdict     string `json:"verdict"`       // allowed, refused, or mixed: the rules changed, or the budget ended
	Rule        string `json:"rule,omitzero"` // the last refusal's
	TxBytes     int64  `json:"tx_bytes"`
	TxPackets   int64  `json:"tx_packets"`
	RxBytes     int64  `json:"rx_bytes"`
	RxPackets   int64  `json:"rx_packets"`
	Refused     int64  `json:"refused"` // connections refused and packets dropped
}

// Timings are microseconds spent in each step of a job.
type Timings struct {
	Queue     int64 `json:"queue"`
	Workspace int64 `json:"workspace"`
	Network   int64 `json:"network"`
	Jail      int64 `json:"jail"`
	Run       int64 `json:"run"`
	Flush     int64 `json:"flush"`
}

// Event is one line of GET /v1/jobs/{id}/events.
type Event struct {
	Seq      int64          `json:"seq"`
	AtMS     int64          `json:"at_ms"`
	Type     string         `json:"type"` // state, stdout, stderr, denial, exit
	Data     jsontext.Value `json:"data"` // a string for stdout and stderr, else an object
	Encoding string         `json:"encoding,omitzero"`
}

// List is a page of items.
type List[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}
