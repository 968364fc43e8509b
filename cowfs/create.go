package cowfs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CreateOptions describe one tree.
type CreateOptions struct {
	ID     string // the job's; names its directory, which a jail can read in /proc/self/mountinfo: no tenant in it
	Slot   uint32
	IDBase uint32 // host id of jail id 0

	// Workspace is the named workspace to restore into the tree; empty: nothing is restored, nothing can be flushed.
	Workspace string
	Wait      bool  // wait, until ctx ends, for another job that has the workspace; false: ErrBusy at once
	MaxBytes  int64 // refuse to restore more data than this; 0: 64 GiB
	MaxFiles  int64 // refuse to restore more entries than this; 0: 2 million
}

// Create makes the tree of one job: a record first, then directories, then, for a named workspace, its last snapshot,
// then the detached mounts. On an error nothing of it is left.
func (m *Manager) Create(ctx context.Context, o CreateOptions) (_ *Tree, err error) {
	if !idPattern.MatchString(o.ID) {
		return nil, fmt.Errorf("%w: job id %s", ErrName, quote(o.ID))
	}
	skel, err := m.skeleton(o.Slot, o.IDBase)
	if err != nil {
		return nil, err
	}
	t := &Tree{m: m, record: record{ID: o.ID, Slot: o.Slot, IDBase: o.IDBase, Workspace: o.Workspace}}
	if o.Workspace != "" {
		if t.lease, err = m.take(ctx, o.Workspace, o.Wait); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.release())
		}
	}()

	if err := t.makeDirs(); err != nil {
		return nil, err
	}
	if t.lease != nil {
		if err := t.restore(ctx, o); err != nil {
			return nil, fmt.Errorf("restore workspace %s: %w", o.Workspace, err)
		}
	}
	if err := t.mount(skel); err != nil {
		return nil, err
	}
	return t, nil
}

// makeDirs makes STATE/run/ID with the record, and upper and work in it. The upper's own attributes are those of the
// jail's root directory.
func (t *Tree) makeDirs() error {
	run := int(t.m.run.Fd())
	if err := unix.Mkdirat(run, t.record.ID, 0o700); err != nil {
		return fmt.Errorf("mkdirat run/%s: %w", t.record.ID, err)
	}
	dir, err := openDirAt(t.m.run, t.record.ID)
	if err != nil {
		return err
	}
	t.dir = dir
	if err := t.writeRecord(); err != nil {
		return err
	}
	for _, name := range []string{"upper", "work"} {
		if err := unix.Mkdirat(int(dir.Fd()), name, 0o755); err != nil {
			return fmt.Errorf("mkdirat %s: %w", name, err)
		}
	}
	if t.upper, err = openDirAt(dir, "upper"); err != nil {
		return err
	}
	if err := t.upper.Chown(int(t.record.IDBase), int(t.record.IDBase)); err != nil {
		return fmt.Errorf("fchown upper: %w", err)
	}
	return nil
}

// mount assembles the mounts that the jail gets.
func (t *Tree) mount(skel *skeleton) error {
	work, err := openDirAt(t.dir, "work")
	if err != nil {
		return err
	}
	defer work.Close()
	// A named workspace's upper must survive a crash of the node, so its fsyncs count.
	volatile := t.m.support.Volatile && t.record.Workspace == ""
	if t.root, err = mountOverlay(t.m.api, skel.dir, t.upper, work, volatile); err != nil {
		return err
	}
	for _, name := range t.m.node.clones {
		mnt, err := cloneReadOnly(t.m.node.path(name))
		if err != nil {
			return err
		}
		t.mounts = append(t.mounts, Mount{Target: "/" + name, File: mnt})
	}
	dev, err := mountDev(t.record.IDBase)
	if err != nil {
		return err
	}
	t.mounts = append(t.mounts, Mount{Target: "/dev", File: dev})
	return nil
}

// Mount is a detached mount for the jail to attach at Target, after its root, in order.
type Mount struct {
	Target string // absolute in the jail
	File   *os.File
}
