package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

// run hands the job to the runner and returns its result. A panic ends this job and no other.
func (m *manager) run(j *job) (result api.Result) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic: %v", p)
			m.log.Error("the run of a job panicked", keyJob, j.id, keyErr, err, "stack", string(debug.Stack()))
			m.fault("run", err)
			result = lost(j.meta, "tolbooth failed while the job ran; the agent's log says why")
		}
		result.Timings.Queue = j.began.Sub(j.work.Admitted).Microseconds()
	}()
	if err := context.Cause(j.ctx); err != nil {
		return neverRan(j.meta, err)
	}
	eventfd, err := newEventfd()
	if err != nil {
		m.fault("run", err)
		r := lost(j.meta, err.Error())
		r.Outcome = api.OutcomeStartFailed
		return r
	}
	defer eventfd.Close()
	m.wg.Go(func() { relay(eventfd, &j.wake) })

	return m.runner.Run(j.ctx, j.work, &jobProgress{m: m, j: j, eventfd: eventfd})
}

// finish records the result, ends the streams and wakes everyone who waits. Order: the answer exists before the last
// event, so that who saw the event gets the answer; the job is done last.
func (m *manager) finish(j *job, result api.Result) {
	normalise(&result)
	if j.began.IsZero() && !j.work.Admitted.IsZero() { // its turn never came
		result.Timings.Queue = time.Since(j.work.Admitted).Microseconds()
	}
	j.cancel(nil)
	j.release()
	m.ensureExit(j, result)

	end := time.Now().UTC()
	final := j.now()
	final.State, final.Result, final.FinishedAt = api.StateFinished, &result, &end
	body, err := encodeJSON(final)
	if err != nil {
		// Only a malformed fix can do this. What is known of the outcome must not be lost with it.
		m.log.Error("encode the result", keyJob, j.id, keyErr, err)
		m.fault("record", err)
		result.Denials = []api.Denial{}
		result.Detail = "the denials could not be encoded; the agent's log says why"
		body, err = encodeJSON(final)
	}
	body = append(body, '\n')
	if err == nil {
		err = completeRecord(j.file, body)
	}
	if err != nil {
		m.log.Error("the result is kept in memory only", keyJob, j.id, keyErr, err)
		m.fault("record", err)
	}

	j.mu.Lock()
	j.state, j.finished, j.proc = api.StateFinished, end, nil
	if err != nil || len(body) <= keptBody {
		j.body = body
	}
	j.mu.Unlock()
	m.append(j, spool.State, api.StateEvent{
		State: api.StateFinished, Outcome: result.Outcome, Detail: result.Detail,
		ExitCode: result.ExitCode, Signal: result.Signal, Limit: result.Limit,
	})
	if line, err := auditOf(m.cfg.NodeName, j, final); err != nil {
		m.auditLost(j.id, err)
	} else {
		m.audit.Append(j.id, line)
	}
	j.closeFiles()
	m.log.Info("job finished", keyJob, j.id, keyMode, string(j.meta.Mode), "outcome", string(result.Outcome))
	m.metrics.finished(result)
	j.work = nil
	m.leave(j)
	close(j.done)
	j.wake.all()
	m.prune(end)
}

// leave gives the job's place to the next. It comes before the answer: who has got one finds room for its next job.
func (m *manager) leave(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live--
	m.ended = append(m.ended, j)
	if !j.began.IsZero() {
		m.running--
		m.typical = (7*m.typical + time.Since(j.began)) / 8
	}
	m.dispatch()
	m.settled.all()
}

// ensureExit adds the record of the end where no warden wrote one, so that every stream has exactly one.
func (m *manager) ensureExit(j *job, r api.Result) {
	switch r.Outcome {
	case api.OutcomeOK, api.OutcomeExit, api.OutcomeSignal:
		return
	}
	has, err := hasExit(j.spoolAt)
	if err != nil {
		m.fault("spool", err)
		return
	}
	if !has {
		m.append(j, spool.Exit, exitFor(r))
	}
}

// exitFor words an end that no warden saw.
func exitFor(r api.Result) jail.Exit {
	e := jail.Exit{Cause: jail.CauseLost, Error: r.Detail, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes, Truncated: r.Truncated}
	switch r.Outcome {
	case api.OutcomeCancelled:
		e.Cause = jail.CauseCancelled
	case api.OutcomeStartFailed:
		e.Cause = jail.CauseStartFailed
	}
	return e
}

// neverRan is the result of a job that was cancelled before its turn.
func neverRan(meta record, cause error) api.Result {
	r := lost(meta, "cancelled while it waited: "+cause.Error())
	r.Outcome = api.OutcomeCancelled
	return r
}

// lost is the result of a job whose end nobody saw.
func lost(meta record, detail string) api.Result {
	return api.Result{
		Outcome: api.OutcomeAgentLost, Detail: detail,
		Isolation: api.Isolation{Mode: string(meta.Mode), Grade: "none"},
	}
}

// normalise makes what is empty look empty: lists as [], never null.
func normalise(r *api.Result) {
	if r.Outcome == "" {
		r.Outcome, r.Detail = api.OutcomeAgentLost, "the run ended without an outcome"
	}
	if r.Encoding == "" {
		r.Encoding = "utf-8"
	}
	r.Outputs, r.Denials = slices.Concat([]api.Output{}, r.Outputs), slices.Concat([]api.Denial{}, r.Denials)
	r.Usage.Flows = slices.Concat([]api.Flow{}, r.Usage.Flows)
	r.Isolation.Layers = slices.Concat([]string{}, r.Isolation.Layers)
	r.Isolation.Missing = slices.Concat([]string{}, r.Isolation.Missing)
	r.Isolation.Extras = slices.Concat([]string{}, r.Isolation.Extras)
}

// prune removes the oldest finished jobs beyond what is kept.
func (m *manager) prune(now time.Time) {
	m.mu.Lock()
	var old []*job
	for _, j := range m.ended {
		if len(m.ended)-len(old) <= m.cfg.RetainJobs && now.Sub(j.finishedAt()) <= m.cfg.Retain {
			break
		}
		old = append(old, j)
		m.drop(j)
	}
	m.ended = m.ended[len(old):]
	m.mu.Unlock()
	for _, j := range old {
		m.removeFiles(j.id)
	}
}

func (j *job) finishedAt() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.finished
}

// drop takes a job out of the table. Guarded by mu.
func (m *manager) drop(j *job) {
	if m.jobs[j.id] == j {
		delete(m.jobs, j.id)
	}
	if i := slices.Index(m.order, j); i >= 0 {
		m.order = slices.Delete(m.order, i, i+1)
	}
}

// removeFiles removes the record last: without it, nothing would find the spool again.
func (m *manager) removeFiles(id string) {
	for _, path := range []string{m.spoolPath(id), m.recordPath(id)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			m.log.Error("remove an old record", keyJob, id, keyErr, err)
			m.fault("record", err)
		}
	}
}

// keepPruning removes jobs as they grow old, until ctx ends.
func (m *manager) keepPruning(ctx context.Context) {
	tick := time.NewTicker(min(max(m.cfg.Retain/10, time.Second), time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			m.prune(now)
		}
	}
}

// Drain stops admission and returns a channel that is closed when no job is left.
func (m *manager) Drain() <-chan struct{} {
	m.mu.Lock()
	m.draining = true
	m.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		for {
			changed := m.settled.wait()
			m.mu.Lock()
			live := m.live
			m.mu.Unlock()
			if live == 0 {
				break
			}
			<-changed
		}
		m.wg.Wait()
	}()
	return idle
}

// End cancels every job: waiting ones at once, running ones by their context.
func (m *manager) End(cause error) {
	m.stopAll(cause)
	m.mu.Lock()
	waiting := slices.Clone(m.queue)
	m.mu.Unlock()
	for _, j := range waiting {
		m.Cancel(j, cause)
	}
}
