package cowfs

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// walkOpenDirs bounds the descriptors of one walk, however deep the tree is.
	walkOpenDirs = 64
	// walkDirEntries bounds the names of one directory that are held in memory.
	walkDirEntries = 4 << 20
)

// walk visits every entry below a directory in the order of the bytes of the names, directories before what they hold.
// It goes by descriptors only: a link is an entry like any other. Of deep trees only the innermost directories stay
// open; the way back up is "..", and the walk ends with an error when that is not the directory it came from.
type walk struct {
	root   *os.File
	levels []walkLevel
}

type walkLevel struct {
	dir      *os.File // nil when closed to save descriptors
	dev, ino uint64
	names    []string // still to visit
}

// newWalk starts at root, which stays the caller's.
func newWalk(root *os.File) *walk {
	return &walk{root: root}
}

// each calls visit for every entry with the directory it is in. An entry that vanishes meanwhile is left out. skip, when
// visit returns errSkip, keeps the walk out of a directory.
func (w *walk) each(visit func(dir *os.File, name string, st *unix.Stat_t) error) error {
	again, err := openDirAt(w.root, ".")
	if err != nil {
		return err
	}
	if err := w.push(again); err != nil {
		return err
	}
	for len(w.levels) > 0 {
		top := &w.levels[len(w.levels)-1]
		if len(top.names) == 0 {
			if err := w.pop(); err != nil {
				return err
			}
			continue
		}
		name := top.names[0]
		top.names = top.names[1:]
		var st unix.Stat_t
		err := unix.Fstatat(int(top.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return fmt.Errorf("fstatat %s: %w", quote(name), err)
		}
		err = visit(top.dir, name, &st)
		if errors.Is(err, errSkip) {
			continue
		}
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		sub, err := openDirAt(top.dir, name)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue // swapped meanwhile
		}
		if err != nil {
			return err
		}
		if err := w.push(sub); err != nil {
			return err
		}
	}
	return nil
}

// errSkip is returned by a visitor that does not want to enter a directory.
var errSkip = errors.New("skip")

// depth is how many directories are above the entry being visited.
func (w *walk) depth() int { return len(w.levels) }

func (w *walk) push(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return fmt.Errorf("fstat: %w", err)
	}
	names, err := readNames(dir, walkDirEntries)
	if err != nil {
		dir.Close()
		return err
	}
	slices.Sort(names)
	w.levels = append(w.levels, walkLevel{dir: dir, dev: st.Dev, ino: st.Ino, names: names})
	if outer := len(w.levels) - walkOpenDirs - 1; outer >= 0 {
		w.levels[outer].dir.Close()
		w.levels[outer].dir = nil
	}
	return nil
}

func (w *walk) pop() error {
	top := w.levels[len(w.levels)-1]
	defer top.dir.Close()
	w.levels = w.levels[:len(w.levels)-1]
	if len(w.levels) == 0 {
		return nil
	}
	above := &w.levels[len(w.levels)-1]
	if above.dir != nil {
		return nil
	}
	dir, err := openDirAt(top.dir, "..")
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return fmt.Errorf("fstat: %w", err)
	}
	if st.Dev != above.dev || st.Ino != above.ino {
		dir.Close()
		return errors.New("a deep directory was moved during the walk")
	}
	above.dir = dir
	return nil
}

// close releases what an aborted walk left open.
func (w *walk) close() {
	for _, l := range w.levels {
		if l.dir != nil {
			l.dir.Close()
		}
	}
	w.levels = nil
}
