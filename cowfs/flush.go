package cowfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
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
	id, stats, err := t.m.flush(ctx, t.upper, &t.record, meta)
	if err != nil {
		return "", stats, fmt.Errorf("flush workspace %s: %w", t.record.Workspace, err)
	}
	// The next flush of this tree has this one as its parent.
	return id, stats, t.writeRecord()
}

// flush stores the upper that rec describes, and on success makes rec name the new snapshot.
func (m *Manager) flush(ctx context.Context, upper *os.File, rec *record, meta FlushMeta) (string, FlushStats, error) {
	start := m.opts.Now()
	if !rec.Restored {
		return "", FlushStats{}, fmt.Errorf("%w: the workspace was not restored whole", ErrNotFlushable)
	}
	dataSet := rec.DataSet
	if dataSet == "" {
		dataSet = "d-" + strings.ToLower(rand.Text())
	}
	id, manifest, err := m.store(ctx, upper, rec, dataSet, meta, start)
	if err != nil {
		return "", FlushStats{}, err
	}
	h := &head{
		Format: headFormat, Version: headVersion, Workspace: rec.Workspace, DataSet: dataSet, Snapshot: id, Parent: rec.Parent,
		Node: m.opts.Node, CreatedAt: start.UTC(), UpdatedAt: start.UTC(),
	}
	if rec.Head != "" {
		old, err := m.readHead(ctx, rec.Workspace)
		if err != nil {
			return "", FlushStats{}, err
		}
		if old == nil || string(old.version) != rec.Head {
			return "", FlushStats{}, fmt.Errorf("%w (%s)", ErrConflict, describe(old))
		}
		h.CreatedAt = old.CreatedAt
	}
	if err := m.publish(ctx, h, store.Version(rec.Head)); err != nil {
		return "", FlushStats{}, err
	}
	now, err := m.readHead(ctx, rec.Workspace)
	if err != nil {
		return "", FlushStats{}, err
	}
	if now == nil || now.Snapshot != id {
		return "", FlushStats{}, fmt.Errorf("%w right after this flush (%s)", ErrConflict, describe(now))
	}
	rec.Parent, rec.DataSet, rec.Head = id, dataSet, string(now.version)
	return id, FlushStats{
		Entries: manifest.Entries, Files: manifest.Files, Bytes: manifest.Bytes, BytesAdded: manifest.BytesAdded,
		Duration: m.opts.Now().Sub(start),
	}, nil
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
