package agent

import (
	"context"
	"encoding/hex"
	"os"
	"sync"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

// job is one job in the manager's table, from its admission until its record is removed.
type job struct {
	id      string
	request [32]byte // hash of what was asked
	created time.Time
	spoolAt string        // path of the spool
	meta    record        // its line on disk
	done    chan struct{} // closed when the job is finished, recorded and answered from then on

	// What only an unfinished job has.
	work    *work
	ctx     context.Context
	cancel  context.CancelCauseFunc
	spool   *spool.Writer
	file    *os.File   // the record, for its second line
	stdin   *stdinPipe // nil: not open
	release func()     // gives the request's memory back; may be called twice
	began   time.Time  // when its turn came; set before its goroutine starts
	wake    wake       // the spool has grown, or the job is finished

	mu       sync.Mutex // guards what follows
	state    api.State
	proc     process
	finished time.Time
	body     []byte // the finished job as it is answered; nil: in the record
	failed   error  // the job could not be recorded, so it never was
}

// keptBody is the largest answer that stays in memory; larger ones are read from the record again.
const keptBody = 16 << 10

func (j *job) isDone() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// hasAnswer tells whether the job is answered as finished: from a moment before it is done, so that who has seen its
// last event is answered with the result.
func (j *job) hasAnswer() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state == api.StateFinished || j.failed != nil
}

// now is the state, and what of an unfinished job can be told.
func (j *job) now() api.Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	labels := j.meta.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return api.Job{ID: j.id, State: j.state, CreatedAt: j.created, Labels: labels}
}

func (j *job) currentState() api.State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state
}

// newRecord is a new job's line on disk.
func newRecord(w *work, request [32]byte, created time.Time) record {
	return record{
		ID: w.ID, Request: hex.EncodeToString(request[:]), CreatedAt: created, Labels: w.Labels,
		Mode: w.Mode, Workspace: w.Workspace, Output: w.Limits.Output.Value,
		Extras: w.Policy.Change().Extras, Deny: w.Policy.Change().Deny,
	}
}

// closeFiles closes what the agent holds of an unfinished job. The spool's and stdin's other ends are the warden's own.
func (j *job) closeFiles() {
	if j.stdin != nil {
		j.stdin.Close()
	}
	for _, f := range []*os.File{j.work.Stdin, j.work.Spool, j.file} {
		if f != nil {
			f.Close()
		}
	}
}
