package cowfs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// idRange is how many ids a slot maps.
const idRange = 65536

// skeleton is the lower layer of one slot's jails.
type skeleton struct {
	idBase uint32
	dir    *os.File
}

// Skeleton makes sure that the lower layer of a slot exists and is up to date. Create calls it too; called ahead, it
// takes the cost (milliseconds, once per slot and agent version) off the first job's path.
func (m *Manager) Skeleton(slot, idBase uint32) error {
	_, err := m.skeleton(slot, idBase)
	return err
}

func (m *Manager) skeleton(slot, idBase uint32) (*skeleton, error) {
	if idBase < idRange || uint64(idBase)+idRange > 1<<32-1 {
		return nil, fmt.Errorf("id base %d: outside of the ids that a slot may have", idBase)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.skeletons[slot]; s != nil {
		if s.idBase != idBase {
			return nil, fmt.Errorf("slot %d has id base %d, not %d", slot, s.idBase, idBase)
		}
		return s, nil
	}
	prefix := fmt.Sprintf("%d-", slot)
	name := prefix + m.node.version(m.node.slot, idBase)
	dir, err := m.openSkeleton(name, m.node.slot, idBase)
	if err != nil {
		return nil, fmt.Errorf("skeleton of slot %d: %w", slot, err)
	}
	// The slot is free, so no jail uses an earlier one.
	m.dropSkeletons(func(n string) bool { return n != name && strings.HasPrefix(n, prefix) })
	s := &skeleton{idBase: idBase, dir: dir}
	m.skeletons[slot] = s
	return s, nil
}

// buildCommon opens the layer that all jails share. It belongs to the host's root, as the node's /usr does: jails see it
// as nobody's and may read it.
func (m *Manager) buildCommon() (*os.File, error) {
	boot := m.node.boot[:min(8, len(m.node.boot))]
	prefix := "common-" + boot + "-"
	dir, err := m.openSkeleton(prefix+m.node.version(m.node.common, 0), m.node.common, 0)
	if err != nil {
		return nil, fmt.Errorf("common skeleton: %w", err)
	}
	// One of this boot may be the lower layer of a jail that outlived an earlier agent. Half-built ones are an earlier
	// agent's too: this one has the state directory's lock.
	m.dropSkeletons(func(n string) bool {
		return strings.HasPrefix(n, "common-") && !strings.HasPrefix(n, prefix) || strings.HasPrefix(n, "tmp-")
	})
	return dir, nil
}

func (m *Manager) openSkeleton(name string, entries []skelEntry, idBase uint32) (*os.File, error) {
	dir, err := fdwalk.OpenDir(m.skel, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := m.buildSkeleton(name, entries, idBase); err != nil {
		return nil, err
	}
	return fdwalk.OpenDir(m.skel, name)
}

// version names the content of a skeleton: same name, same bytes, same owners. The boot id is part of it, so that no
// sync is needed: after a crash of the node all skeletons are built anew.
func (n *nodeLower) version(entries []skelEntry, idBase uint32) string {
	h := blake3.New()
	fmt.Fprintf(h, "skeleton 2 %s %d\n", n.boot, idBase)
	for _, e := range entries {
		fmt.Fprintf(h, "%q %o %d %d\n%s", e.path, uint32(e.mode), e.id, len(e.data), e.data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// buildSkeleton writes a skeleton beside its place and moves it there when it is whole.
func (m *Manager) buildSkeleton(name string, entries []skelEntry, idBase uint32) error {
	tmp := "tmp-" + rand.Text()
	if err := unix.Mkdirat(int(m.skel.Fd()), tmp, 0o700); err != nil {
		return fmt.Errorf("mkdirat: %w", err)
	}
	// os.Root: nothing that is made in here is ever followed.
	root, err := os.OpenRoot(filepath.Join(m.skel.Name(), tmp))
	if err != nil {
		return err
	}
	defer root.Close()
	err = fillSkeleton(root, entries, int(idBase))
	if err == nil {
		err = unix.Renameat2(int(m.skel.Fd()), tmp, int(m.skel.Fd()), name, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return errors.Join(err, m.sweeper.discard(m.skel, tmp))
	}
	return nil
}

func fillSkeleton(root *os.Root, entries []skelEntry, idBase int) error {
	for _, e := range entries {
		var err error
		switch {
		case e.mode.IsDir():
			err = root.Mkdir(e.path, 0o700)
		case e.mode&fs.ModeSymlink != 0:
			err = root.Symlink(e.data, e.path)
		default:
			err = root.WriteFile(e.path, []byte(e.data), 0o600)
		}
		if err != nil {
			return err
		}
		if err := root.Lchown(e.path, idBase+int(e.id), idBase+int(e.id)); err != nil {
			return err
		}
		if e.mode&fs.ModeSymlink != 0 {
			continue
		}
		if err := root.Chmod(e.path, e.mode&^fs.ModeType); err != nil {
			return err
		}
	}
	if err := root.Chown(".", idBase, idBase); err != nil {
		return err
	}
	return root.Chmod(".", 0o755)
}

// dropSkeletons gets rid of skeletons by name. What cannot be removed now is found again at the next start.
func (m *Manager) dropSkeletons(old func(name string) bool) {
	names, err := fdwalk.Names(m.skel, 1<<16)
	if err != nil {
		m.sweeper.failed(err)
		return
	}
	for _, name := range names {
		if old(name) {
			if err := m.sweeper.discard(m.skel, name); err != nil {
				m.sweeper.failed(err)
			}
		}
	}
}
