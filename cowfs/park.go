package cowfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// Parked is an upper that could not be flushed and waits on the disk.
type Parked struct {
	Name      string // of its directory below STATE/parked
	Workspace string
	Job       string
	Reason    string
	Since     time.Time
	Retry     bool // RetryParked tries it; false: a person has to decide (conflict, or perhaps incomplete)
}

// Park unmounts the tree and moves its upper to STATE/parked, from where RetryParked flushes it. Precondition: every
// process of the job is gone. Only a tree that holds a wholly restored workspace is parked; any other is discarded.
// retry false keeps it for a person.
func (t *Tree) Park(reason string, retry bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	t.gone = true
	if t.lease == nil || !t.record.Restored {
		return t.release()
	}
	t.record.Reason, t.record.Retry = reason, retry
	t.record.ParkedAt = t.m.opts.Now().UTC()
	// The upper must survive what comes: until now nobody cared.
	err := unix.Syncfs(int(t.upper.Fd()))
	if err != nil {
		err = fmt.Errorf("syncfs: %w", err)
	}
	t.record.Synced = err == nil
	err = errors.Join(err, t.unmount(), t.closeProject(), t.record.write(t.dir, true))
	err = errors.Join(err, t.m.park(t.name), t.dir.Close())
	t.m.own(t.name, false)
	t.lease.release()
	return err
}

// park moves STATE/run/name to STATE/parked/name.
func (m *Manager) park(name string) error {
	if err := unix.Renameat2(int(m.run.Fd()), name, int(m.parked.Fd()), name, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("renameat2 %s to parked: %w", name, err)
	}
	return errors.Join(m.parked.Sync(), m.run.Sync())
}

// Parked lists what waits to be flushed.
func (m *Manager) Parked() ([]Parked, error) {
	const limit = 1 << 16
	dir, err := fdwalk.OpenDir(m.parked, ".") // a position of its own
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := fdwalk.Names(dir, limit)
	if err != nil {
		return nil, err
	}
	var list []Parked
	for _, name := range names {
		sub, err := fdwalk.OpenDir(dir, name)
		if err != nil {
			return list, err
		}
		rec, err := readRecord(sub)
		sub.Close()
		if err != nil {
			// Never dropped because of that: it is shown, and stays.
			list = append(list, Parked{Name: name, Reason: "its record cannot be read: " + err.Error()})
			continue
		}
		list = append(list, Parked{
			Name: name, Workspace: rec.Workspace, Job: rec.ID, Reason: rec.Reason, Since: rec.ParkedAt, Retry: rec.Retry,
		})
	}
	return list, nil
}

// RetryParked flushes every parked upper that may be retried and whose workspace is free. What was flushed is removed;
// what lost to another agent's flush stays, for a person to decide. It returns how many were flushed.
func (m *Manager) RetryParked(ctx context.Context) (int, error) {
	list, err := m.Parked()
	flushed := 0
	for _, p := range list {
		if !p.Retry {
			continue
		}
		if ctx.Err() != nil {
			return flushed, errors.Join(err, context.Cause(ctx))
		}
		retryErr := m.retry(ctx, p)
		if errors.Is(retryErr, ErrBusy) {
			continue
		}
		if retryErr != nil {
			err = errors.Join(err, fmt.Errorf("parked workspace %s: %w", p.Workspace, retryErr))
			continue
		}
		flushed++
	}
	return flushed, err
}

func (m *Manager) retry(ctx context.Context, p Parked) error {
	l, err := m.take(ctx, p.Workspace, false)
	if err != nil {
		return err
	}
	defer l.release()
	dir, err := fdwalk.OpenDir(m.parked, p.Name)
	if err != nil {
		return err
	}
	defer dir.Close()
	rec, err := readRecord(dir)
	if err != nil {
		return err
	}
	upper, err := fdwalk.OpenDir(dir, "upper")
	if err != nil {
		return err
	}
	defer upper.Close()
	if _, _, err := m.flush(ctx, dir, upper, &rec, FlushMeta{Job: rec.ID}); err != nil {
		if errors.Is(err, ErrConflict) {
			rec.Retry, rec.Reason = false, rec.Reason+"; "+err.Error()
			err = errors.Join(err, rec.write(dir, true))
		}
		return err
	}
	return m.sweeper.discard(m.parked, p.Name)
}

// Leftover is a tree that an earlier agent made and did not release.
type Leftover struct {
	Name      string // of its directory below STATE/run
	ID        string // the job's; empty: prepared for a job that never came
	Slot      uint32
	IDBase    uint32
	Workspace string
}

// Leftovers lists the trees in STATE/run that this manager did not make. The job of one may still be running: the agent
// knows. When it is not, Adopt or Abandon the tree.
func (m *Manager) Leftovers() ([]Leftover, error) {
	const limit = 1 << 16
	dir, err := fdwalk.OpenDir(m.run, ".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := fdwalk.Names(dir, limit)
	if err != nil {
		return nil, err
	}
	var list []Leftover
	for _, name := range names {
		if m.owns(name) {
			continue
		}
		sub, err := fdwalk.OpenDir(dir, name)
		if err != nil {
			return list, err
		}
		rec, err := readRecord(sub)
		sub.Close()
		if err != nil {
			// Killed between mkdir and the record: nothing can be in it.
			list = append(list, Leftover{Name: name})
			continue
		}
		list = append(list, Leftover{Name: name, ID: rec.ID, Slot: rec.Slot, IDBase: rec.IDBase, Workspace: rec.Workspace})
	}
	return list, nil
}

// Adopt mounts a leftover tree again, as if this manager had made it, and leases its workspace. Precondition: every process
// of its job is gone.
func (m *Manager) Adopt(ctx context.Context, left Leftover) (_ *Tree, err error) {
	dir, err := fdwalk.OpenDir(m.run, left.Name)
	if err != nil {
		return nil, err
	}
	rec, err := readRecord(dir)
	if err != nil {
		dir.Close()
		return nil, err
	}
	t := &Tree{m: m, name: left.Name, dir: dir, record: rec}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.unmount(), dir.Close())
			if t.lease != nil {
				t.lease.release()
			}
		}
	}()
	if rec.Boot != m.node.boot {
		return nil, fmt.Errorf("%w: the node restarted since job %s; its tree may be incomplete", ErrNotFlushable, rec.ID)
	}
	if rec.Workspace != "" {
		if t.lease, err = m.take(ctx, rec.Workspace, false); err != nil {
			return nil, err
		}
	}
	if t.upper, err = fdwalk.OpenDir(dir, "upper"); err != nil {
		return nil, err
	}
	// A volatile mount leaves a mark in the work directory that forbids the next one: after a crash of the node the upper
	// would be suspect. The boot id says that there was none.
	if err := m.sweeper.discard(dir, "work"); err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(int(dir.Fd()), "work", 0o755); err != nil {
		return nil, fmt.Errorf("mkdirat work: %w", err)
	}
	skel, err := m.skeleton(rec.Slot, rec.IDBase)
	if err != nil {
		return nil, err
	}
	m.own(t.name, true)
	if err := t.mount(skel); err != nil {
		m.own(t.name, false)
		return nil, err
	}
	return t, nil
}

// Abandon releases a leftover tree that is not adopted: a workspace's unflushed work is parked, everything else is
// removed. Precondition: every process of its job is gone.
func (m *Manager) Abandon(left Leftover, reason string) error {
	dir, err := fdwalk.OpenDir(m.run, left.Name)
	if err != nil {
		return err
	}
	defer dir.Close()
	rec, err := readRecord(dir)
	if err != nil || rec.Workspace == "" || !rec.Restored {
		return m.sweeper.discard(m.run, left.Name)
	}
	rec.Reason, rec.ParkedAt = reason, m.opts.Now().UTC()
	// Written since the node's last start: what the programs wrote is all there. Before it: perhaps not, and nobody can
	// tell, so it never becomes a snapshot by itself.
	rec.Retry = rec.Boot == m.node.boot
	if !rec.Retry {
		rec.Reason += "; the node restarted before it was flushed, so files may be missing"
	} else if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("syncfs: %w", err)
	}
	rec.Synced = rec.Retry
	if err := rec.write(dir, true); err != nil {
		return err
	}
	return m.park(left.Name)
}

// DropParked gives parked work up for good.
func (m *Manager) DropParked(name string) error {
	if strings.ContainsAny(name, "/.") || name == "" {
		return fmt.Errorf("%w: parked %s", ErrName, quote(name))
	}
	return m.sweeper.discard(m.parked, name)
}

// newName makes a name for a tree's directory.
func newName() string { return strings.ToLower(rand.Text()) }
