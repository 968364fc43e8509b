package agent

import (
	"os"
	"slices"
	"sync"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

// states is the order that a job's states come in; none comes twice or goes back.
var states = []api.State{api.StateQueued, api.StateStarting, api.StateRunning, api.StateFinished}

// maxRefusals bounds how many refusals of the agent's own become events of one job. The result lists what it counts.
const maxRefusals = 256

// jobProgress writes into the job's spool what run tells, and wakes those who read it.
type jobProgress struct {
	m       *manager
	j       *job
	eventfd *os.File

	mu       sync.Mutex
	refusals int // guarded by mu
}

// Enter moves the job on. A state that it has left already changes nothing.
func (p *jobProgress) Enter(state api.State) {
	if !p.j.enter(state) {
		return
	}
	p.m.log.Info("job "+string(state), keyJob, p.j.id, keyMode, string(p.j.meta.Mode))
	p.m.append(p.j, spool.State, api.StateEvent{State: state})
}

// enter reports whether state is a step forward, and takes it.
func (j *job) enter(state api.State) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if slices.Index(states, state) <= slices.Index(states, j.state) {
		return false
	}
	j.state = state
	return true
}

// Started gives signals their target. The command has its own copy of stdin from here on, so the agent's is closed: a
// command that closes its input is then seen to have done so. The files are in the tree, so their bytes are let go.
func (p *jobProgress) Started(proc process) {
	p.j.mu.Lock()
	p.j.proc = proc
	p.j.mu.Unlock()
	if p.j.work.Stdin != nil {
		p.j.work.Stdin.Close()
	}
	for i := range p.j.work.Files {
		p.j.work.Files[i].Data = nil
	}
	p.j.release()
}

// Deny records a refusal that the agent saw itself, or found in what the job left.
func (p *jobProgress) Deny(d api.Denial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusals++; p.refusals > maxRefusals {
		p.m.metrics.eventDropped()
		return
	}
	p.m.append(p.j, spool.Refusal, d)
}

func (p *jobProgress) Notify() *os.File { return p.eventfd }

// append writes one record of the agent's and wakes the readers. A spool that cannot be written is a fault of the node
// and does not end the job: the result is not made from these records.
func (m *manager) append(j *job, kind spool.Kind, v any) {
	if j.isDone() { // a watcher of run's that came late
		m.metrics.eventDropped()
		return
	}
	payload, err := encodeJSON(v)
	if err == nil {
		err = j.spool.Append(kind, payload)
	}
	if err != nil {
		m.log.Error("event lost", keyJob, j.id, keyErr, err)
		m.metrics.eventDropped()
		m.fault("spool", err)
	}
	j.wake.all()
}
