package cowfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tolbooth-dev/tolbooth/cowfs/snapshot"
	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

const (
	headFormat  = "tolbooth-workspace"
	headVersion = 1
	maxHead     = 64 << 10
)

// head is the one object of a workspace that is ever replaced: it names the newest snapshot. It is written by
// conditional writes only, each against the head that the writer restored from, so of two flushes one fails.
type head struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	Workspace string    `json:"workspace"`
	DataSet   string    `json:"data_set"` // incarnation: chosen at the first flush, gone with Delete
	Snapshot  string    `json:"snapshot"`
	Parent    string    `json:"parent"` // snapshot that this one replaced
	Node      string    `json:"node"`
	CreatedAt time.Time `json:"created_at"` // of the workspace
	UpdatedAt time.Time `json:"updated_at"`

	version store.Version
}

var dataSetPattern = regexp.MustCompile(`^d-[0-9a-z]{26}$`)

// Every workspace has a directory of its own: a credential for one is a credential for a key prefix.
func (m *Manager) headKey(name string) string { return m.workspaces() + "/" + name + "/head" }

func (m *Manager) workspaces() string { return m.opts.Prefix + "/workspaces" }

func (m *Manager) layout(name, dataSet string) snapshot.Layout {
	return snapshot.Layout{Prefix: m.workspaces(), Workspace: name, DataSet: dataSet}
}

// readHead returns the head of a workspace, or nil when the workspace does not exist.
func (m *Manager) readHead(ctx context.Context, name string) (*head, error) {
	data, info, err := m.opts.Bucket.Get(ctx, m.headKey(name), maxHead)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read head: %w", err)
	}
	h := &head{version: info.Version}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(h); err != nil {
		return nil, fmt.Errorf("%w: head: %v", snapshot.ErrCorrupt, err)
	}
	switch {
	case h.Format != headFormat:
		return nil, fmt.Errorf("%w: head: format %.40q", snapshot.ErrCorrupt, h.Format)
	case h.Version != headVersion:
		return nil, fmt.Errorf("%w: head: version %d", snapshot.ErrVersion, h.Version)
	case h.Workspace != name:
		return nil, fmt.Errorf("%w: head belongs to workspace %.80q", snapshot.ErrCorrupt, h.Workspace)
	case !dataSetPattern.MatchString(h.DataSet):
		return nil, fmt.Errorf("%w: head: data set %.40q", snapshot.ErrCorrupt, h.DataSet)
	}
	if err := snapshot.CheckID(h.Snapshot); err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	return h, nil
}

// publish replaces the head that had version parent, or makes the first one, and returns its version. A failed condition is a conflict only when
// the head is not our own: the store may have done the write and lost the answer.
func (m *Manager) publish(ctx context.Context, h *head, parent store.Version) (store.Version, error) {
	data, err := json.Marshal(h)
	if err != nil {
		return "", err
	}
	key := m.headKey(h.Workspace)
	var v store.Version
	if parent == "" {
		v, err = m.opts.Bucket.PutIfAbsent(ctx, key, data)
	} else {
		v, err = m.opts.Bucket.PutIfMatch(ctx, key, data, parent)
	}
	if err == nil {
		return v, nil
	}
	now, readErr := m.readHead(ctx, h.Workspace)
	switch {
	case readErr != nil:
		return "", fmt.Errorf("publish head: %w", errors.Join(err, readErr))
	case now != nil && now.Snapshot == h.Snapshot && now.DataSet == h.DataSet:
		return now.version, nil
	case errors.Is(err, store.ErrPrecondition):
		return "", fmt.Errorf("publish head: %w (%s)", ErrConflict, describe(now))
	}
	return "", fmt.Errorf("publish head: %w", err)
}

func describe(h *head) string {
	if h == nil {
		return "it was deleted meanwhile"
	}
	return fmt.Sprintf("node %.80q published snapshot %s at %s", h.Node, h.Snapshot, h.UpdatedAt.Format(time.RFC3339))
}
