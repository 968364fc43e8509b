package cowfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tolbooth-dev/tolbooth/cowfs/snapshot"
	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

// Workspace is a named tree in the bucket.
type Workspace struct {
	Name      string
	Head      string // id of the newest snapshot
	Bytes     int64
	Files     int64
	InUse     bool // by a job of this agent
	Unflushed bool // parked work of this agent
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Snapshot is one state of a workspace.
type Snapshot struct {
	ID         string
	Parent     string
	CreatedAt  time.Time
	Node       string
	Job        string
	Base       string
	Entries    int64
	Files      int64
	Bytes      int64
	BytesAdded int64
}

// List returns the names of all workspaces in the bucket, in order.
func (m *Manager) List(ctx context.Context) ([]string, error) {
	if m.opts.Bucket == nil {
		return nil, nil
	}
	var names []string
	prefix := m.workspaces()
	for info, err := range m.opts.Bucket.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list workspaces: %w", err)
		}
		name, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, prefix+"/"), "/head")
		if ok && namePattern.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Get describes a workspace. One that has never been flushed does not exist: ErrNotFound.
func (m *Manager) Get(ctx context.Context, name string) (Workspace, error) {
	h, err := m.existing(ctx, name)
	if err != nil {
		return Workspace{}, err
	}
	r, err := snapshot.Open(ctx, m.opts.Bucket, m.layout(name, h.DataSet), h.Snapshot)
	if err != nil {
		return Workspace{}, fmt.Errorf("workspace %s: %w", name, err)
	}
	defer r.Close()
	parked, err := m.Parked()
	if err != nil {
		return Workspace{}, err
	}
	m.mu.Lock()
	inUse := m.leases[name] != nil
	m.mu.Unlock()
	return Workspace{
		Name: name, Head: h.Snapshot, Bytes: r.Manifest.Bytes, Files: r.Manifest.Files, InUse: inUse,
		Unflushed: slices.ContainsFunc(parked, func(p Parked) bool { return p.Workspace == name }),
		CreatedAt: h.CreatedAt, UpdatedAt: h.UpdatedAt,
	}, nil
}

// Snapshots returns the history of a workspace, newest first, at most limit.
func (m *Manager) Snapshots(ctx context.Context, name string, limit int) ([]Snapshot, error) {
	h, err := m.existing(ctx, name)
	if err != nil {
		return nil, err
	}
	var list []Snapshot
	layout := m.layout(name, h.DataSet)
	// Along the parents, not by listing: manifests that were stored but never published are no history.
	for id := h.Snapshot; id != "" && len(list) < limit; {
		r, err := snapshot.Open(ctx, m.opts.Bucket, layout, id)
		if err != nil {
			return list, fmt.Errorf("workspace %s: %w", name, err)
		}
		r.Close()
		list = append(list, Snapshot{
			ID: id, Parent: r.Manifest.Parent, CreatedAt: r.Manifest.CreatedAt, Node: r.Manifest.Node, Job: r.Manifest.Job,
			Base: r.Manifest.Base, Entries: r.Manifest.Entries, Files: r.Manifest.Files, Bytes: r.Manifest.Bytes,
			BytesAdded: r.Manifest.BytesAdded,
		})
		// Sequence numbers fall along the parents, so a hostile ring ends here.
		if r.Manifest.Parent != "" && r.Manifest.Parent >= id {
			return list, fmt.Errorf("workspace %s: %w: snapshot %s has the parent %s", name, snapshot.ErrCorrupt, id, r.Manifest.Parent)
		}
		id = r.Manifest.Parent
	}
	return list, nil
}

// Delete removes a workspace: first the head, by which it is gone for everyone, then its objects. One that is in use by a
// job of this agent is ErrBusy; another agent's job that has it finds a conflict when it flushes.
func (m *Manager) Delete(ctx context.Context, name string) error {
	l, err := m.take(ctx, name, false)
	if err != nil {
		return err
	}
	defer l.release()
	h, err := m.existing(ctx, name)
	if err != nil {
		return err
	}
	err = m.opts.Bucket.DeleteIfMatch(ctx, m.headKey(name), h.version)
	if errors.Is(err, store.ErrPrecondition) {
		return fmt.Errorf("delete workspace %s: %w", name, ErrConflict)
	}
	if err != nil {
		return fmt.Errorf("delete workspace %s: %w", name, err)
	}
	for info, err := range m.opts.Bucket.List(ctx, m.layout(name, h.DataSet).Dir()) {
		if err == nil {
			err = m.opts.Bucket.Delete(ctx, info.Key)
		}
		if err != nil {
			return fmt.Errorf("workspace %s is deleted, but objects of it are left: %w", name, err)
		}
	}
	return nil
}

func (m *Manager) existing(ctx context.Context, name string) (*head, error) {
	if !namePattern.MatchString(name) {
		return nil, fmt.Errorf("%w: workspace %s", ErrName, quote(name))
	}
	if m.opts.Bucket == nil {
		return nil, fmt.Errorf("%w: named workspaces are switched off", ErrUnsupported)
	}
	h, err := m.readHead(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", name, err)
	}
	if h == nil {
		return nil, fmt.Errorf("workspace %s: %w", name, ErrNotFound)
	}
	return h, nil
}
