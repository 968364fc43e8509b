package cowfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tolbooth-dev/tolbooth/cowfs/snapshot"
	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

// FlushMeta is what a snapshot says about where it comes from.
type FlushMeta struct {
	Job  string
	Base string // default "host"
}

// FlushStats tell what a flush did.
type FlushStats struct {
	Entries    int64
	Files      int64
	Bytes      int64 // of data in the snapshot
	BytesAdded int64 // stored by this flush
	Unchanged  bool  // the tree is the parent snapshot's: no new one was made
	Duration   time.Duration
}

// notKept are the top directories of a tree that are no part of a workspace: made anew for each run, or the node's own.
var notKept = []string{"dev", "proc", "run", "sys", "tmp", "usr"}

// Flush stores what the job changed as the workspace's next snapshot and publishes it. Precondition: nothing writes to the
// tree.
//
// Data first, the manifest after it, the head last and only if it is still the one that was restored. After an error the
// workspace is unchanged and so is the tree: Flush again, or Park. ErrConflict means that another agent flushed the
// workspace since; flushing again cannot help.
func (t *Tree) Flush(ctx context.Context, meta FlushMeta) (string, FlushStats, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lease == nil || t.gone || t.upper == nil {
		return "", FlushStats{}, fmt.Errorf("%w: it holds no workspace", ErrNotFlushable)
	}
	id, stats, err := t.m.flush(ctx, t.dir, t.upper, &t.record, meta)
	if err != nil {
		return "", stats, fmt.Errorf("flush workspace %s: %w", t.record.Workspace, err)
	}
	// The next flush of this tree has this one as its parent.
	return id, stats, t.writeRecord()
}

// flush stores the upper that rec, the record in dir, describes. On success rec names the new snapshot.
func (m *Manager) flush(ctx context.Context, dir, upper *os.File, rec *record, meta FlushMeta) (string, FlushStats, error) {
	start := m.opts.Now()
	if !rec.Restored {
		return "", FlushStats{}, fmt.Errorf("%w: the workspace was not restored whole", ErrNotFlushable)
	}
	old, err := m.readHead(ctx, rec.Workspace)
	if err != nil {
		return "", FlushStats{}, err
	}
	if old != nil && old.Snapshot == rec.Attempt && old.DataSet == rec.AttemptDataSet {
		rec.Parent, rec.DataSet, rec.Head = old.Snapshot, old.DataSet, string(old.version)
	}
	if (old == nil) != (rec.Head == "") || old != nil && string(old.version) != rec.Head {
		return "", FlushStats{}, fmt.Errorf("%w (%s)", ErrConflict, describe(old))
	}
	h := &head{
		Format: headFormat, Version: headVersion, Workspace: rec.Workspace, DataSet: "d-" + newName(), Parent: rec.Parent,
		Node: m.opts.Node, CreatedAt: start.UTC(), UpdatedAt: start.UTC(),
	}
	if old != nil {
		h.DataSet, h.CreatedAt = old.DataSet, old.CreatedAt
	}
	id, manifest, err := m.store(ctx, upper, rec, h.DataSet, meta, start)
	if err != nil {
		return "", FlushStats{}, err
	}
	stats := FlushStats{
		Entries: manifest.Entries, Files: manifest.Files, Bytes: manifest.Bytes, BytesAdded: manifest.BytesAdded,
		Unchanged: id == rec.Parent,
	}
	if stats.Unchanged {
		stats.BytesAdded = 0
	} else {
		h.Snapshot = id
		rec.Attempt, rec.AttemptDataSet = id, h.DataSet
		if err := rec.write(dir, rec.Synced); err != nil {
			return "", stats, err
		}
		v, err := m.publish(ctx, h, store.Version(rec.Head))
		if err != nil {
			return "", stats, err
		}
		rec.Parent, rec.DataSet, rec.Head = id, h.DataSet, string(v)
	}
	stats.Duration = m.opts.Now().Sub(start)
	return id, stats, nil
}

// store writes a snapshot that nothing refers to yet.
func (m *Manager) store(ctx context.Context, upper *os.File, rec *record, dataSet string, meta FlushMeta, now time.Time) (_ string, _ *snapshot.Manifest, err error) {
	w, err := snapshot.NewWriter(ctx, m.opts.Bucket, m.layout(rec.Workspace, dataSet), snapshot.Info{
		Parent: rec.Parent, CreatedAt: now, Node: m.opts.Node, Job: meta.Job, Base: orDefault(meta.Base, "host"),
	})
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	err = w.Scan(ctx, upper, snapshot.ScanOptions{IDBase: rec.IDBase, Skip: m.skip, MaxEntries: defaultMaxFiles})
	if err != nil {
		return "", nil, err
	}
	return w.Finish(ctx)
}

// skip says which paths are no part of a workspace.
func (m *Manager) skip(path string) bool {
	return synthesizedPath(path) || slices.Contains(notKept, path) || slices.Contains(m.node.clones, path)
}
