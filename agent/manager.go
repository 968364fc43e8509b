package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

// Why a job's context was cancelled: what context.Cause of run's context returns.
var (
	errCancelled = errors.New("cancelled by request")
	errDrained   = errors.New("the agent is stopping and the job did not end in time")
	errStopped   = errors.New("the agent was told to stop at once")
)

// manager admits jobs, runs at most max_jobs of them at once in the order of their arrival, and keeps the finished ones
// for a while. It decides nothing about how a job runs.
type manager struct {
	cfg     *Config
	runner  runner
	log     *slog.Logger
	metrics *metrics
	fault   func(step string, err error)
	dir     string
	blanks  *blanks
	audit   *auditLog

	base    context.Context // of every job; cancelled when they must end
	stopAll context.CancelCauseFunc
	wg      sync.WaitGroup // running jobs

	mu       sync.Mutex // guards what follows; never held during I/O
	jobs     map[string]*job
	order    []*job // by creation, oldest first
	queue    []*job // recorded, waiting for a place
	ended    []*job // finished, in the order of their ends
	live     int    // admitted and not finished
	running  int
	draining bool
	newest   time.Time
	typical  time.Duration // how long jobs of late held their place

	settled wake // live went down
}

func newManager(cfg *Config, r runner, m *metrics, fault func(string, error), log *slog.Logger) (*manager, error) {
	mgr := &manager{
		cfg: cfg, runner: r, log: log, metrics: m, fault: fault,
		dir: filepath.Join(cfg.State, "jobs"), jobs: map[string]*job{}, typical: time.Second,
	}
	mgr.base, mgr.stopAll = context.WithCancelCause(context.Background())
	if err := os.MkdirAll(mgr.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of records: %w", err)
	}
	var err error
	if mgr.blanks, err = newBlanks(filepath.Join(cfg.State, "blank")); err != nil {
		return nil, fmt.Errorf("make the directory of blank files: %w", err)
	}
	path := cfg.Audit.Path
	if path == "" {
		path = filepath.Join(cfg.State, "audit.log")
	}
	if mgr.audit, err = openAudit(path, int64(cfg.Audit.MaxSize), cfg.Audit.Keep, mgr.auditLost); err != nil {
		return nil, err
	}
	if err := mgr.load(); err != nil {
		return nil, errors.Join(err, mgr.audit.Close())
	}
	return mgr, nil
}

// auditLost tells of a run that is missing from the audit log. Its job has ended as it would have.
func (m *manager) auditLost(id string, err error) {
	m.log.Error("a run is missing from the audit log", keyJob, id, keyErr, err)
	m.metrics.auditLost()
	m.fault("audit", err)
}

// Submit admits a job, or returns the one that the same request made before. release gives back the memory that the
// request holds; Submit owns it from now on.
func (m *manager) Submit(req *api.JobRequest, hash [32]byte, w *work, release func()) (*job, error) {
	j, fresh, err := m.reserve(req.ID, hash, w)
	if err != nil || !fresh {
		release()
		return j, err
	}
	j.release = release
	if err := m.prepare(j, req); err != nil {
		m.forget(j, err)
		return nil, err
	}
	m.enqueue(j)
	return j, nil
}

// reserve takes a place for a new job, or finds the old one. After it the job counts as admitted.
func (m *manager) reserve(id string, hash [32]byte, w *work) (_ *job, fresh bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.jobs[id]; old != nil {
		if old.request != hash {
			return nil, false, refuse(api.ClassConflict, "id", "job %s was made by another request", quoted(id)).
				hint("use a new id; the same id is for sending the same request again")
		}
		return old, false, nil
	}
	if m.draining {
		return nil, false, refuse(api.ClassUnavailable, "", "the agent is stopping and takes no new jobs").
			hint("another node, or this one when its next agent is up, takes it").after(5 * time.Second)
	}
	if m.live >= m.cfg.MaxJobs+m.cfg.Queue {
		return nil, false, refuse(api.ClassCapacity, "", "the node's %d places to run and %d places to wait are all taken", m.cfg.MaxJobs, m.cfg.Queue).
			hint("send it again later, or to another node").after(m.nextPlace())
	}
	if id == "" {
		id = strings.ToLower(rand.Text())
	}
	// Each creation time is later than the one before: it is the order of lists and their cursor.
	now := time.Now()
	if !now.After(m.newest) {
		now = m.newest.Add(1)
	}
	m.newest = now
	w.ID, w.Admitted, w.SpoolPath = id, now, m.spoolPath(id)
	j := &job{id: id, request: hash, created: now.UTC(), spoolAt: w.SpoolPath, done: make(chan struct{}), work: w, state: api.StateQueued}
	j.meta = newRecord(w, hash, j.created)
	j.ctx, j.cancel = context.WithCancelCause(m.base)
	m.jobs[id] = j
	m.order = append(m.order, j)
	m.live++
	return j, true, nil
}

// nextPlace guesses when a place is free. Guarded by mu.
func (m *manager) nextPlace() time.Duration {
	return min(max(m.typical/time.Duration(m.cfg.MaxJobs), 100*time.Millisecond), 30*time.Second)
}

// prepare makes what the job needs before it can wait: the record first, so that an agent that dies now is known to have
// had this job.
func (m *manager) prepare(j *job, req *api.JobRequest) (err error) {
	defer func() {
		if err != nil {
			m.fault("record", err)
			m.log.Error("job not recorded", keyJob, j.id, keyErr, err)
			err = refuse(api.ClassUnavailable, "", "the node cannot record jobs at present").hint("its disk may be full; `tolbooth doctor` on the node says more")
		}
	}()
	if j.file, err = m.createRecord(j.meta); err != nil {
		return err
	}
	f, err := m.blanks.open(j.work.SpoolPath)
	if err != nil {
		return fmt.Errorf("create the spool: %w", err)
	}
	j.work.Spool = f
	j.spool = spool.NewWriter(f, j.work.Admitted)
	if req.Stdin.Open {
		j.stdin, j.work.Stdin, err = openStdin()
		return err
	}
	text, err := decodeText("stdin", "stdin_encoding", req.Stdin.Text, req.StdinEncoding)
	if err != nil {
		return err
	}
	j.work.Stdin, err = stdinFile(text)
	return err
}

// forget undoes reserve and prepare.
func (m *manager) forget(j *job, err error) {
	j.closeFiles()
	j.release()
	m.removeFiles(j.id)
	j.mu.Lock()
	j.failed = err
	j.mu.Unlock()
	close(j.done)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live--
	m.drop(j)
	m.settled.all()
}

// enqueue starts the job, or has it wait for its turn.
func (m *manager) enqueue(j *job) {
	m.log.Info("job queued", keyJob, j.id, keyMode, string(j.meta.Mode))
	m.append(j, spool.State, api.StateEvent{State: api.StateQueued})
	m.mu.Lock()
	cancelled := context.Cause(j.ctx) // before mu was held; who cancels after it finds the job in the queue
	if cancelled == nil {
		m.queue = append(m.queue, j)
		m.dispatch()
	}
	m.mu.Unlock()
	if cancelled != nil {
		m.finish(j, neverRan(j.meta, cancelled))
	}
}

// dispatch starts waiting jobs while there are places. Guarded by mu.
func (m *manager) dispatch() {
	for m.running < m.cfg.MaxJobs && len(m.queue) > 0 {
		j := m.queue[0]
		m.queue = m.queue[1:]
		m.running++
		j.began = time.Now()
		m.wg.Go(func() { m.finish(j, m.run(j)) })
	}
}

// Cancel ends a job that is not finished, and returns at once. A waiting job never starts.
func (m *manager) Cancel(j *job, cause error) {
	j.cancel(cause)
	if m.unqueue(j) {
		m.finish(j, neverRan(j.meta, cause))
	}
}

func (m *manager) unqueue(j *job) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, q := range m.queue {
		if q == j {
			m.queue = append(m.queue[:i:i], m.queue[i+1:]...)
			return true
		}
	}
	return false
}

// Get finds a job.
func (m *manager) Get(id string) (*job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[id]; j != nil {
		return j, nil
	}
	return nil, refuse(api.ClassNotFound, "", "there is no job %s", quoted(id)).
		hint("finished jobs are kept for %s, at most %d", api.Duration(m.cfg.Retain), m.cfg.RetainJobs)
}

// Capacity is how full the node is.
func (m *manager) Capacity() api.Capacity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return api.Capacity{Running: m.running, Queued: m.live - m.running, Max: m.cfg.MaxJobs, Queue: m.cfg.Queue}
}

// unfinished are the ids of the jobs that have not ended.
func (m *manager) unfinished() []string {
	var ids []string
	for _, j := range m.newestFirst() {
		if !j.isDone() {
			ids = append(ids, j.id)
		}
	}
	return ids
}

// newestFirst lists every job.
func (m *manager) newestFirst() []*job {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Clone(m.order)
	slices.Reverse(list)
	return list
}
