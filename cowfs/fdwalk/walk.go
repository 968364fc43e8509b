package fdwalk

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dirEntries bounds the names of one directory that are held in memory.
const dirEntries = 4 << 20

// ErrSkip is returned by a visitor that does not want to enter the directory it was shown.
var ErrSkip = errors.New("skip this directory")

// Walk visits every entry below a directory in the order of the bytes of the names, each directory before what it holds.
type Walk struct {
	stack Stack
	names [][]string // still to visit, per level of the stack
	path  []string   // names of the levels below the root
}

// Each calls visit for every entry below root with the directory it is in. root stays the caller's. An entry that vanishes
// meanwhile is left out.
func (w *Walk) Each(root *os.File, visit func(dir *os.File, name string, st *unix.Stat_t) error) error {
	defer w.stack.Close()
	again, err := OpenDir(root, ".")
	if err != nil {
		return err
	}
	if err := w.enter(again); err != nil {
		return err
	}
	for w.stack.Depth() > 0 {
		top := len(w.names) - 1
		if len(w.names[top]) == 0 {
			if err := w.stack.Pop(); err != nil {
				return err
			}
			w.names = w.names[:top]
			w.path = w.path[:max(top-1, 0)]
			continue
		}
		name := w.names[top][0]
		w.names[top] = w.names[top][1:]
		if err := w.step(name, visit); err != nil {
			return err
		}
	}
	return nil
}

func (w *Walk) step(name string, visit func(dir *os.File, name string, st *unix.Stat_t) error) error {
	dir := w.stack.Top()
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("fstatat %s: %w", Quote(name), err)
	}
	if err := visit(dir, name, &st); err != nil {
		if errors.Is(err, ErrSkip) {
			return nil
		}
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	sub, err := OpenDir(dir, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // swapped meanwhile
	}
	if err != nil {
		return err
	}
	w.path = append(w.path, name)
	return w.enter(sub)
}

func (w *Walk) enter(dir *os.File) error {
	names, err := Names(dir, dirEntries)
	if err != nil {
		dir.Close()
		return err
	}
	slices.Sort(names)
	w.names = append(w.names, names)
	return w.stack.Push(dir)
}

// Depth is how many directories are above the entry being visited, the root included.
func (w *Walk) Depth() int { return w.stack.Depth() }

// Path is the path of the entry being visited, relative to the root.
func (w *Walk) Path(name string) string {
	if len(w.path) == 0 {
		return name
	}
	return strings.Join(w.path, "/") + "/" + name
}
