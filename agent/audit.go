package agent

import (
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// auditLine is one run in the audit log: who asked for what, and the run's record, without the bytes that the job printed
// or left. Text of the job is in it as JSON strings only, so no job can end a line or begin one.
type auditLine struct {
	Version    int               `json:"version"`
	ID         string            `json:"id"`
	Node       string            `json:"node"`
	CreatedAt  time.Time         `json:"created_at"`
	FinishedAt time.Time         `json:"finished_at"`
	Peer       *auditPeer        `json:"peer"` // null: a job of an agent that was killed
	Labels     map[string]string `json:"labels"`
	Request    auditRequest      `json:"request"`
	Result     auditResult       `json:"result"`
}

const auditVersion = 1

// auditPeer is who sent the request: a process on this node as the kernel names it, or an address that knew the token.
type auditPeer struct {
	Listener string  `json:"listener"` // socket, tcp
	UID      *uint32 `json:"uid,omitzero"`
	GID      *uint32 `json:"gid,omitzero"`
	PID      int32   `json:"pid,omitzero"`
	Address  string  `json:"address,omitzero"`
}

// auditRequest sums a request up. Hash is the whole of it: equal requests have equal ones.
type auditRequest struct {
	Hash       string      `json:"hash"`
	Command    []string    `json:"command"` // with defaults filled in, like all that follows
	CommandCut bool        `json:"command_cut,omitzero"`
	Mode       string      `json:"mode"`
	Workspace  string      `json:"workspace"`
	Env        []string    `json:"env"` // names of variables
	EnvCut     bool        `json:"env_cut,omitzero"`
	Limits     api.Limits  `json:"limits"`
	Network    api.Network `json:"network"`
	Policy     api.Policy  `json:"policy"`
}

// auditResult is the result without what only the job says. Its own fields take the place of those with the same name.
type auditResult struct {
	api.Result
	Stdout         string `json:"stdout,omitzero"`
	Stderr         string `json:"stderr,omitzero"`
	Encoding       string `json:"encoding,omitzero"`
	DenialsOmitted int    `json:"denials_omitted,omitzero"`

	Effective *api.Effective `json:"effective,omitzero"` // the line's request says the same
}

// Bounds of one line.
const (
	maxAuditCommand = 4 << 10
	maxAuditEnv     = 4 << 10
	maxAuditLine    = 512 << 10
	fewDenials      = 64
)

// auditOf is the line of a finished run.
func auditOf(node string, j *job, final api.Job) ([]byte, error) {
	a := auditLine{
		Version: auditVersion, ID: j.id, Node: node, CreatedAt: final.CreatedAt, FinishedAt: *final.FinishedAt, Labels: final.Labels,
		Request: auditRequest{Hash: j.meta.Request, Mode: string(j.meta.Mode), Workspace: j.meta.Workspace, Command: []string{}, Env: []string{}},
		Result:  auditResult{Result: *final.Result},
	}
	if w := j.work; len(w.Command) > 0 {
		a.Peer = w.Peer.audit()
		a.Request.Command, a.Request.CommandCut = cutWords(w.Command, maxAuditCommand)
		a.Request.Limits = w.Limits.wire()
		a.Request.Network = w.Network.wire()
		a.Request.Env, a.Request.EnvCut = cutWords(variables(w.Env), maxAuditEnv)
	}
	a.Request.Policy = api.Policy{Extras: j.meta.Extras, Deny: j.meta.Deny}
	a.Result.Outputs = append([]api.Output{}, a.Result.Outputs...)
	for i := range a.Result.Outputs {
		a.Result.Outputs[i].Content = ""
	}
	line, err := encodeJSON(a)
	for _, most := range []int{fewDenials, 0} {
		if err != nil || len(line) <= maxAuditLine {
			break
		}
		all := final.Result.Denials
		a.Result.Denials = all[:min(most, len(all))]
		a.Result.DenialsOmitted = len(all) - len(a.Result.Denials)
		line, err = encodeJSON(a)
	}
	return append(line, '\n'), err
}

func (p peer) audit() *auditPeer {
	if p.unix {
		return &auditPeer{Listener: "socket", UID: &p.uid, GID: &p.gid, PID: p.pid}
	}
	return &auditPeer{Listener: "tcp", Address: p.address}
}

// cutWords keeps the first bytes of a command.
func cutWords(words []string, most int) (kept []string, cut bool) {
	for _, w := range words {
		if most -= len(w) + 1; most < 0 {
			return append(kept, w[:max(0, len(w)+most)]), true
		}
		kept = append(kept, w)
	}
	return kept, false
}
