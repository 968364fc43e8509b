package fdwalk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openDirs bounds the descriptors of one stack.
const openDirs = 64

// ErrMoved: on the way back up, ".." was not the directory that the walk came from.
var ErrMoved = errors.New("a directory was moved during the walk")

// Stack is the chain of directories from the root of a tree to where a walk is. Of deep chains only the innermost stay
// open; the others are opened again through "..", and must still be the same.
type Stack struct {
	levels []stackLevel
}

type stackLevel struct {
	dir      *os.File // nil: closed to save descriptors
	dev, ino uint64
}

// Push enters dir, which becomes the stack's to close, also when Push fails.
func (s *Stack) Push(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return fmt.Errorf("fstat directory: %w", err)
	}
	s.levels = append(s.levels, stackLevel{dir: dir, dev: st.Dev, ino: st.Ino})
	if outer := len(s.levels) - openDirs - 1; outer >= 0 {
		s.levels[outer].dir.Close()
		s.levels[outer].dir = nil
	}
	return nil
}

// Top is the directory entered last.
func (s *Stack) Top() *os.File { return s.levels[len(s.levels)-1].dir }

// Depth is how many directories are entered.
func (s *Stack) Depth() int { return len(s.levels) }

// Pop leaves the directory entered last.
func (s *Stack) Pop() error {
	top := s.levels[len(s.levels)-1]
	defer top.dir.Close()
	s.levels = s.levels[:len(s.levels)-1]
	if len(s.levels) == 0 {
		return nil
	}
	above := &s.levels[len(s.levels)-1]
	if above.dir != nil {
		return nil
	}
	dir, err := OpenDir(top.dir, "..")
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return fmt.Errorf("fstat directory: %w", err)
	}
	if st.Dev != above.dev || st.Ino != above.ino {
		dir.Close()
		return ErrMoved
	}
	above.dir = dir
	return nil
}

// Close leaves all directories.
func (s *Stack) Close() {
	for _, l := range s.levels {
		if l.dir != nil {
			l.dir.Close()
		}
	}
	s.levels = nil
}
