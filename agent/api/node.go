package api

// Health is the answer of GET /health.
type Health struct {
	Status     string           `json:"status"` // ok, degraded, draining, failing
	Version    string           `json:"version"`
	Node       string           `json:"node"`
	Jail       JailHealth       `json:"jail"`
	Filesystem FilesystemHealth `json:"filesystem"`
	Capacity   Capacity         `json:"capacity"`
	Problems   []NodeProblem    `json:"problems"`
}

// The values of Health.Status. Jobs run with ok and degraded only.
const (
	StatusOK       = "ok"
	StatusDegraded = "degraded"
	StatusDraining = "draining"
	StatusFailing  = "failing"
)

// JailHealth is the node's own jail mode and what each of its layers is: "ok", or "missing" with the reason.
type JailHealth struct {
	Mode   string            `json:"mode"`
	Layers map[string]string `json:"layers"`
	Grade  string            `json:"grade"`
}

// FilesystemHealth is the state of workspaces. LastFlushAgeMS is null until the first flush.
type FilesystemHealth struct {
	Enabled             bool   `json:"enabled"`
	Bucket              string `json:"bucket"`
	LastFlushAgeMS      *int64 `json:"last_flush_age_ms"`
	UnflushedWorkspaces int    `json:"unflushed_workspaces"`
}

// Capacity is how full the node is. Max is how many jobs run at once, Queue how many more may wait.
type Capacity struct {
	Running int `json:"running"`
	Queued  int `json:"queued"`
	Max     int `json:"max"`
	Queue   int `json:"queue"`
}

// NodeProblem is something an operator should know.
type NodeProblem struct {
	What string `json:"what"`
	Why  string `json:"why"`
	Fix  string `json:"fix"`
}

// Node is the answer of GET /v1/node: what this node can do.
type Node struct {
	Version   string              `json:"version"`
	Node      string              `json:"node"`
	Kernel    string              `json:"kernel"`
	Arch      string              `json:"arch"`
	Backend   string              `json:"backend"`   // the jail mode of a request that names none
	MinGrade  string              `json:"min_grade"` // no job runs with less
	Explainer string              `json:"explainer"` // what hears of refused calls in syd: notify or ptrace; empty: syd does not run here
	Modes     map[string]JailMode `json:"modes"`
	Cgroup    Cgroup              `json:"cgroup"`
	Bases     map[string]Base     `json:"bases"`
	Limits    NodeLimits          `json:"limits"`
	Network   NodeNetwork         `json:"network"`
	Workspace NodeWorkspace       `json:"workspace"`
	Policy    NodePolicy          `json:"policy"`
	Env       map[string]string   `json:"env"` // a job's environment before the request's own
	Capacity  Capacity            `json:"capacity"`
	Request   RequestLimits       `json:"request"`
}

// JailMode is one jail mode on this node.
type JailMode struct {
	Available bool             `json:"available"`
	Grade     string           `json:"grade"`
	Layers    map[string]Layer `json:"layers"`
}

// Layer is one layer of a jail mode. Why and Fix are empty when Status is "ok".
type Layer struct {
	Status string `json:"status"` // ok, missing
	Why    string `json:"why,omitzero"`
	Fix    string `json:"fix,omitzero"`
}

// Cgroup is how limits reach the kernel. Controllers maps each to the hierarchy it sits on: "v2", "v1" or "missing".
type Cgroup struct {
	Version     string            `json:"version"` // v2, v1, hybrid
	Controllers map[string]string `json:"controllers"`
}

// Base is one root file system that jobs can start from.
type Base struct {
	Languages map[string]Language `json:"languages"`
}

// Language is what runs code of a language in a base.
type Language struct {
	Available bool     `json:"available"`
	Command   []string `json:"command,omitzero"` // "{}" stands for the file with the code
	Why       string   `json:"why,omitzero"`     // when it is not available
}

// NodeLimits are the limits a job gets when it names none, and the most that it may name.
type NodeLimits struct {
	Defaults Limits `json:"defaults"`
	Max      Limits `json:"max"`
}

// NodeNetwork is which network modes this node permits.
type NodeNetwork struct {
	Modes    []string `json:"modes"`
	Internal []string `json:"internal"` // address ranges no job reaches, on top of the node's own addresses
	Permit   []string `json:"permit"`   // rules beyond which no request may allow anything; empty: no such ceiling
}

// NodeWorkspace is whether named workspaces are offered, and where they are kept.
type NodeWorkspace struct {
	Named  bool   `json:"named"`
	Bucket string `json:"bucket"`
}

// NodePolicy is what policy.extras and policy.deny may say, by name. The name syscall.NAME stands for one of each call.
type NodePolicy struct {
	Extras map[string]Extra  `json:"extras"`
	Deny   map[string]string `json:"deny"` // what is taken away
}

// Extra is a permission beyond the default policy.
type Extra struct {
	Available bool   `json:"available"`
	What      string `json:"what"`         // it permits, and at what price
	Why       string `json:"why,omitzero"` // when it is not available
}

// RequestLimits bound one request.
type RequestLimits struct {
	MaxBody   Quantity `json:"max_body"`
	MaxFiles  int      `json:"max_files"`
	MaxLabels int      `json:"max_labels"`
	MaxWait   Duration `json:"max_wait"`
}
