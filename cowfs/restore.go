package cowfs

import (
	"context"
	"fmt"

	"github.com/tolbooth-dev/tolbooth/cowfs/snapshot"
)

const (
	defaultMaxBytes = 64 << 30
	defaultMaxFiles = 2 << 20
)

// restore fills the new upper with the workspace's last snapshot. The record says Restored only when all of it is there:
// a tree that is not marked so is never flushed.
func (t *Tree) restore(ctx context.Context, o CreateOptions) error {
	h, err := t.m.readHead(ctx, o.Workspace)
	if err != nil {
		return err
	}
	if h != nil {
		if err := t.restoreSnapshot(ctx, h, o); err != nil {
			return err
		}
		t.record.Parent, t.record.DataSet, t.record.Head = h.Snapshot, h.DataSet, string(h.version)
	}
	t.record.Restored = true
	return t.writeRecord()
}

func (t *Tree) restoreSnapshot(ctx context.Context, h *head, o CreateOptions) error {
	r, err := snapshot.Open(ctx, t.m.opts.Bucket, t.m.layout(h.Workspace, h.DataSet), h.Snapshot)
	if err != nil {
		return err
	}
	defer r.Close()
	bounds := snapshot.RestoreOptions{IDBase: t.record.IDBase, MaxBytes: o.MaxBytes, MaxEntries: o.MaxFiles}
	if bounds.MaxBytes == 0 {
		bounds.MaxBytes = defaultMaxBytes
	}
	if bounds.MaxEntries == 0 {
		bounds.MaxEntries = defaultMaxFiles
	}
	if t.restored, err = r.Restore(ctx, t.upper, bounds); err != nil {
		return fmt.Errorf("snapshot %s: %w", h.Snapshot, err)
	}
	return nil
}
