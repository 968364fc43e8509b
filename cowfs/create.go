package cowfs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// CreateOptions describe one tree.
type CreateOptions struct {
	ID     string // the job's
	Slot   uint32
	IDBase uint32 // host id of jail id 0

	// Workspace is the named workspace to restore into the tree; empty: nothing is restored, nothing can be flushed.
	Workspace string
	Wait      bool  // wait, until ctx ends, for another job that has the workspace; false: ErrBusy at once
	MaxBytes  int64 // refuse to restore more data than this; 0: 64 GiB
	MaxFiles  int64 // refuse to restore more entries than this; 0: 2 million
}

// Create makes the tree of one job: a record first, then, for a named workspace, the last snapshot restored whole, then the
// mounts. On an error nothing of it is left.
func (m *Manager) Create(ctx context.Context, o CreateOptions) (_ *Tree, err error) {
	if !idPattern.MatchString(o.ID) {
		return nil, fmt.Errorf("%w: job id %s", ErrName, quote(o.ID))
	}
	if o.Workspace == "" {
		return m.createEphemeral(o)
	}
	l, err := m.take(ctx, o.Workspace, o.Wait)
	if err != nil {
		return nil, err
	}
	skel, err := m.skeleton(o.Slot, o.IDBase)
	if err != nil {
		l.release()
		return nil, err
	}
	t := &Tree{m: m, lease: l, record: record{ID: o.ID, Slot: o.Slot, IDBase: o.IDBase, Workspace: o.Workspace, Boot: m.node.boot}}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.release())
		}
	}()
	if err := t.makeDirs(); err != nil {
		return nil, err
	}
	if err := t.restore(ctx, o); err != nil {
		return nil, fmt.Errorf("restore workspace %s: %w", o.Workspace, err)
	}
	if err := t.mount(skel); err != nil {
		return nil, err
	}
	return t, nil
}

func (m *Manager) createEphemeral(o CreateOptions) (*Tree, error) {
	t, err := m.Prepare(o.Slot, o.IDBase)
	if err != nil {
		return nil, err
	}
	if err := t.Assign(o.ID); err != nil {
		return nil, errors.Join(err, t.Discard())
	}
	return t, nil
}

// Prepare makes an ephemeral tree before its job is known: nothing of it depends on the job, and half a dozen mkdirs can
// take a disk's file system milliseconds. Assign gives it to a job; Discard takes it back.
func (m *Manager) Prepare(slot, idBase uint32) (*Tree, error) {
	skel, err := m.skeleton(slot, idBase)
	if err != nil {
		return nil, err
	}
	t := &Tree{m: m, record: record{Slot: slot, IDBase: idBase, Boot: m.node.boot}}
	err = t.makeDirs()
	if err == nil {
		err = t.mount(skel)
	}
	if err != nil {
		return nil, errors.Join(err, t.release())
	}
	return t, nil
}

// Assign makes a prepared tree the tree of a job.
func (t *Tree) Assign(id string) error {
	if !idPattern.MatchString(id) {
		return fmt.Errorf("%w: job id %s", ErrName, quote(id))
	}
	t.record.ID = id
	return t.writeRecord()
}

// makeDirs makes a directory below STATE/run with upper and work in it. The upper's own attributes are those of the
// jail's root directory. The name is random: the jail can read it in /proc/self/mountinfo.
func (t *Tree) makeDirs() error {
	t.name = newName()
	t.m.own(t.name, true)
	if err := unix.Mkdirat(int(t.m.run.Fd()), t.name, 0o700); err != nil {
		return fmt.Errorf("mkdirat run/%s: %w", t.name, err)
	}
	dir, err := fdwalk.OpenDir(t.m.run, t.name)
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
	if t.upper, err = fdwalk.OpenDir(dir, "upper"); err != nil {
		return err
	}
	if err := t.upper.Chown(int(t.record.IDBase), int(t.record.IDBase)); err != nil {
		return fmt.Errorf("fchown upper: %w", err)
	}
	return t.openProject()
}

// mount assembles the mounts that the jail gets.
func (t *Tree) mount(skel *skeleton) error {
	work, err := fdwalk.OpenDir(t.dir, "work")
	if err != nil {
		return err
	}
	defer work.Close()
	// Volatile for named workspaces too: what makes their content durable is a flush, and an upper that lived through a
	// crash of the node is never trusted (see record.Boot). Without it each unmount syncs the node's whole disk.
	if t.root, err = mountOverlay([]*os.File{skel.dir, t.m.common}, t.upper, work, t.m.support.Volatile); err != nil {
		return err
	}
	for _, name := range t.m.node.clones {
		mnt, err := t.m.base(t.m.node.path(name))
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
