package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

// load takes over the records of an earlier agent. Finished jobs are answered as they were; the others are lost: their
// output so far is kept, and nothing is said to have succeeded that nobody saw the end of.
// Precondition: nothing of an earlier agent's jails is left running, since spools are repaired and appended to.
func (m *manager) load() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return fmt.Errorf("read the directory of records: %w", err)
	}
	var unfinished []*job
	for _, e := range entries {
		id, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord || !idPattern.MatchString(id) {
			continue
		}
		j, err := m.loadOne(id)
		if errors.Is(err, io.EOF) {
			// The agent ended before the first line was whole, so before anyone was answered.
			m.log.Warn("a job was not admitted when an earlier agent ended", keyJob, id)
			m.removeFiles(id)
			continue
		}
		if err != nil {
			m.log.Error("unreadable record of an earlier agent", keyJob, id, keyErr, err)
			m.fault("record", err)
			continue
		}
		m.jobs[id] = j
		m.order = append(m.order, j)
		if j.state == api.StateFinished {
			m.ended = append(m.ended, j)
		} else {
			unfinished = append(unfinished, j)
		}
	}
	slices.SortFunc(m.ended, func(a, b *job) int { return a.finished.Compare(b.finished) })
	slices.SortFunc(m.order, func(a, b *job) int { return a.created.Compare(b.created) })
	if n := len(m.order); n > 0 {
		m.newest = m.order[n-1].created
	}
	for _, j := range unfinished {
		m.live++ // finish takes it off again
		m.recover(j)
	}
	m.sweepFiles(entries)
	m.prune(time.Now())
	return nil
}

func (m *manager) loadOne(id string) (*job, error) {
	f, err := os.OpenFile(m.recordPath(id), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("open the record: %w", err)
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	r, err := readRecord(f)
	if err != nil {
		return nil, err
	}
	if r.ID != id {
		return nil, fmt.Errorf("the record is of job %s", quoted(r.ID))
	}
	hash, err := r.hash()
	if err != nil {
		return nil, err
	}
	j := &job{
		id: id, request: hash, created: r.CreatedAt, spoolAt: m.spoolPath(id), meta: r, done: make(chan struct{}),
		state: api.StateQueued,
	}
	finished, done, err := completion(f)
	if err != nil {
		return nil, err
	}
	if done {
		j.state, j.finished = api.StateFinished, finished
		close(j.done)
		return j, nil
	}
	j.file, keep = f, true
	return j, nil
}

// recover turns an unfinished job of an earlier agent into a finished one.
func (m *manager) recover(j *job) {
	j.cancel, j.release = func(error) {}, func() {}
	if _, err := spool.Repair(j.spoolAt); err != nil && !errors.Is(err, os.ErrNotExist) {
		// What is before the damage can still be read; nothing can be appended behind it.
		m.log.Error("repair a spool", keyJob, j.id, keyErr, err)
		m.fault("spool", err)
	}
	c, err := collect(j.spoolAt, j.meta.Output)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.fault("spool", err)
	}
	f, err := os.OpenFile(j.spoolAt, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		m.log.Error("open a spool again", keyJob, j.id, keyErr, err)
		m.fault("spool", err)
	}
	j.work = &work{ID: j.id, Spool: f}
	j.spool = spool.NewWriter(f, j.created)

	if c.State == "" {
		c.State = api.StateQueued
	}
	r := lost(j.meta, "the agent stopped while the job was "+string(c.State)+"; what it printed until then is kept")
	c.fill(&r)
	r.Denials = c.Refusals
	if c.Exit != nil {
		r.Detail += "; its jail has ended since"
		r.StdoutBytes, r.StderrBytes, r.Truncated = c.Exit.StdoutBytes, c.Exit.StderrBytes, c.Exit.Truncated
		r.Usage.WallMS = c.Exit.RunUS / 1000
		if c.Exit.Cause == jail.CauseExit {
			r.ExitCode = &c.Exit.Code
			r.Detail = "the command ended while no agent watched; its output is kept, and whether the rest of the job was done is not known"
		}
	}
	m.finish(j, r)
}

// sweepFiles removes spools that have no record: an agent died in the middle of removing them.
func (m *manager) sweepFiles(entries []os.DirEntry) {
	for _, e := range entries {
		id, isSpool := strings.CutSuffix(e.Name(), ".spool")
		orphan := isSpool && m.jobs[id] == nil
		if _, err := os.Lstat(m.recordPath(id)); orphan && err == nil {
			orphan = false // an unreadable record: both stay for a person to look at
		}
		if !orphan {
			continue
		}
		if err := os.Remove(filepath.Join(m.dir, e.Name())); err != nil {
			m.log.Error("remove a leftover", "name", clip(e.Name()), keyErr, err)
		}
	}
}
