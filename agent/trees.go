package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/cowfs/snapshot"
)

// Jail ids of the user's program; the skeleton's passwd names them.
const jobUID, jobGID = 1000, 1000

// trees makes job trees with cowfs.
type trees struct {
	fs      *cowfs.Manager
	flushes *flushes
	resolv  []byte // resolv.conf of a job with a network of its own
	shared  []byte // and of one that shares the agent's
}

// Make opens the workspace, restored if it is a named one, and puts the request's files into it.
func (t *trees) Make(ctx context.Context, w *work, p *place) (tree, error) {
	ct, err := t.open(ctx, w, p)
	if err != nil {
		return nil, err
	}
	err = ct.Limit(w.Limits.Disk.Value, w.Limits.Inodes.Value)
	if err == nil {
		err = t.fill(ct, w)
	}
	if err != nil {
		return nil, errors.Join(err, ct.Discard())
	}
	return &jobTree{ct, t.flushes}, nil
}

// open takes the place's own tree, which is always an ephemeral one, or makes the job's.
func (t *trees) open(ctx context.Context, w *work, p *place) (*cowfs.Tree, error) {
	if p.tree != nil {
		return p.tree, p.tree.Assign(w.ID)
	}
	ct, err := t.fs.Create(ctx, cowfs.CreateOptions{
		ID: w.ID, Slot: p.slot, IDBase: p.base(), Workspace: w.Workspace, Wait: true,
		MaxBytes: w.Limits.Disk.Value, MaxFiles: w.Limits.Inodes.Value,
	})
	return ct, nameLimits(err)
}

// nameLimits says which fields of the request a workspace was too large for.
func nameLimits(err error) error {
	if !errors.Is(err, snapshot.ErrTooLarge) {
		return err
	}
	return fmt.Errorf("%w; what a workspace holds counts against limits.disk and limits.inodes, so ask for more of them", err)
}

func (t *trees) fill(ct *cowfs.Tree, w *work) error {
	if w.Network.Mode != "none" {
		resolv := t.resolv
		if w.hostNetwork() {
			resolv = t.shared
		}
		if err := ct.WriteFile("/etc/resolv.conf", resolv, 0o644, 0, 0); err != nil {
			return err
		}
	}
	for _, f := range w.Files {
		if err := ct.WriteFile(f.Path, f.Data, f.Mode, jobUID, jobGID); err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	return nil
}

// jobTree is a cowfs tree whose flushes are counted.
type jobTree struct {
	*cowfs.Tree
	flushes *flushes
}

// Flush publishes the workspace and returns the snapshot's id.
func (t *jobTree) Flush(ctx context.Context, job string) (string, error) {
	id, stats, err := t.Tree.Flush(ctx, cowfs.FlushMeta{Job: job})
	if err == nil {
		t.flushes.succeeded(stats.BytesAdded)
	}
	return id, err
}

// Park keeps the unflushed workspace on this node's disk. What lost to another agent's flush waits for a person.
func (t *jobTree) Park(reason error) error {
	return t.Tree.Park(reason.Error(), !errors.Is(reason, cowfs.ErrConflict))
}
