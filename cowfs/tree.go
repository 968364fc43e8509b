package cowfs

import (
	"errors"
	"os"
	"sync"

	"github.com/tolbooth-dev/tolbooth/cowfs/snapshot"
)

// Tree is the file tree of one job.
type Tree struct {
	m      *Manager
	record record
	lease  *lease // of the named workspace; nil: ephemeral

	name   string // of dir below STATE/run
	dir    *os.File
	upper  *os.File
	root   *os.File // the overlay's mount
	mounts []Mount

	project uint32 // of upper and work; 0: the file system has no quotas

	restored snapshot.Stats

	mu   sync.Mutex
	gone bool // guarded by mu
}

// Root is the detached overlay mount: the jail's root. It stays usable for the Tree's own methods after the jail has
// moved it and after the jail has died.
func (t *Tree) Root() *os.File { return t.root }

// Mounts are attached by the jail below its root, in order.
func (t *Tree) Mounts() []Mount { return t.mounts }

// Workspace is the name of the workspace in the tree, or empty.
func (t *Tree) Workspace() string { return t.record.Workspace }

// Restored is the snapshot that was restored into the tree, empty for a new workspace, and what it held.
func (t *Tree) Restored() (id string, files, bytes int64) {
	return t.record.Parent, t.restored.Files, t.restored.Bytes
}

// Discard unmounts the tree and removes everything in it. Precondition: every process of the job is gone. A large tree
// is moved aside and removed in the background. Unflushed work in it is lost: see Park.
func (t *Tree) Discard() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	t.gone = true
	return t.release()
}

// release undoes Create, whatever of it was done.
func (t *Tree) release() error {
	err := errors.Join(t.unmount(), t.closeProject())
	if t.dir != nil {
		err = errors.Join(err, t.m.sweeper.discard(t.m.run, t.name), t.dir.Close())
	}
	if t.name != "" {
		t.m.own(t.name, false)
	}
	if t.lease != nil {
		t.lease.release()
	}
	return err
}

// unmount closes the mounts: detached, they live as long as their descriptors.
func (t *Tree) unmount() error {
	var err error
	for _, mnt := range t.mounts {
		err = errors.Join(err, mnt.File.Close())
	}
	t.mounts = nil
	for _, f := range []**os.File{&t.root, &t.upper} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}
