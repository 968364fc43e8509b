package snapshot

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// ScanOptions say what of a tree is saved.
type ScanOptions struct {
	IDBase     uint32                 // host id of jail id 0
	Skip       func(path string) bool // entries that are left out, with everything below them
	MaxEntries int64
}

// Scan adds every entry of the upper directory root to the snapshot. Nothing may change below root meanwhile; what does
// change is an error, never a mixture.
func (w *Writer) Scan(ctx context.Context, root *os.File, o ScanOptions) error {
	s := &scanner{w: w, ctx: ctx, o: o, linked: map[uint64]string{}}
	if err := s.root(root); err != nil {
		return err
	}
	return s.walk.Each(root, s.visit)
}

type scanner struct {
	w      *Writer
	ctx    context.Context
	o      ScanOptions
	walk   fdwalk.Walk
	linked map[uint64]string // first path of each inode with several names
	seen   int64
}

func (s *scanner) root(root *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return fmt.Errorf("fstat root: %w", err)
	}
	e, err := s.entry("", Dir, &st)
	if err != nil {
		return err
	}
	if err := readXattrs(fdPath(root), e, s.o.IDBase); err != nil {
		return fmt.Errorf("/: %w", err)
	}
	return s.w.Add(e, nil, nil)
}

func (s *scanner) visit(dir *os.File, name string, st *unix.Stat_t) error {
	path := s.walk.Path(name)
	if s.o.Skip(path) {
		return fdwalk.ErrSkip
	}
	if s.seen++; s.seen > s.o.MaxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrTooLarge, s.o.MaxEntries)
	}
	if s.seen%256 == 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
	}
	if len(path) > maxPath || s.walk.Depth() > maxDepth {
		return fmt.Errorf("%w: %s is more than %d directories or %d bytes deep", ErrTooLarge, quotePath(path), maxDepth, maxPath)
	}
	if err := s.add(dir, name, path, st); err != nil {
		return fmt.Errorf("%s: %w", quotePath(path), err)
	}
	return nil
}

func (s *scanner) add(dir *os.File, name, path string, st *unix.Stat_t) error {
	kind, err := kindOf(st)
	if err != nil {
		return err
	}
	if kind == Whiteout {
		return s.w.Add(&Entry{Path: path, Kind: Whiteout}, nil, nil)
	}
	if kind != Dir && st.Nlink > 1 {
		if first, ok := s.linked[st.Ino]; ok {
			return s.w.Add(&Entry{Path: path, Kind: Hardlink, Target: first}, nil, nil)
		}
		s.linked[st.Ino] = path
	}
	e, err := s.entry(path, kind, st)
	if err != nil {
		return err
	}
	f, err := openEntry(dir, name, kind, st)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := readXattrs(fdPath(f), e, s.o.IDBase); err != nil {
		return err
	}
	switch kind {
	case Symlink:
		if e.Target, err = readlink(f); err != nil {
			return err
		}
	case File:
		e.Size = st.Size
		runs, err := dataRuns(f, st)
		if err != nil {
			return err
		}
		return s.w.Add(e, runs, f)
	}
	return s.w.Add(e, nil, nil)
}

func (s *scanner) entry(path string, kind Kind, st *unix.Stat_t) (*Entry, error) {
	uid, err := shiftID(st.Uid, -int64(s.o.IDBase))
	if err != nil {
		return nil, fmt.Errorf("%w: owner: %w", ErrRefused, err)
	}
	gid, err := shiftID(st.Gid, -int64(s.o.IDBase))
	if err != nil {
		return nil, fmt.Errorf("%w: group: %w", ErrRefused, err)
	}
	return &Entry{
		Path: path, Kind: kind, Mode: st.Mode & 0o7777, UID: uid, GID: gid,
		MtimeSec: st.Mtim.Sec, MtimeNsec: uint32(st.Mtim.Nsec),
	}, nil
}

func kindOf(st *unix.Stat_t) (Kind, error) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File, nil
	case unix.S_IFDIR:
		return Dir, nil
	case unix.S_IFLNK:
		return Symlink, nil
	case unix.S_IFIFO:
		return Fifo, nil
	case unix.S_IFSOCK:
		return Socket, nil
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			return Whiteout, nil
		}
	}
	return 0, fmt.Errorf("%w: a device (mode %o, rdev %d:%d)", ErrRefused, st.Mode, unix.Major(st.Rdev), unix.Minor(st.Rdev))
}

// openEntry opens an entry for reading, or, where opening would mean more than that, as a mere place.
func openEntry(dir *os.File, name string, kind Kind, want *unix.Stat_t) (*os.File, error) {
	flags := unix.O_NOFOLLOW | unix.O_CLOEXEC
	switch kind {
	case Dir:
		flags |= unix.O_RDONLY | unix.O_DIRECTORY
	case File:
		flags |= unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOATIME
	default:
		flags |= unix.O_PATH
	}
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("openat: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, fmt.Errorf("fstat: %w", err)
	}
	if st.Ino != want.Ino || st.Dev != want.Dev || st.Mode != want.Mode || st.Size != want.Size && kind == File {
		f.Close()
		return nil, fmt.Errorf("%w: it changed while it was saved", ErrRefused)
	}
	return f, nil
}

func readlink(f *os.File) (string, error) {
	buf := make([]byte, maxTarget)
	n, err := unix.Readlinkat(int(f.Fd()), "", buf)
	if err != nil {
		return "", fmt.Errorf("readlinkat: %w", err)
	}
	return string(buf[:n]), nil
}

// dataRuns lists where a file has data. A file that occupies as much as its size says is one run.
func dataRuns(f *os.File, st *unix.Stat_t) ([]Run, error) {
	if st.Size == 0 {
		return nil, nil
	}
	if st.Blocks*512 >= st.Size {
		return []Run{{0, st.Size}}, nil
	}
	var runs []Run
	for at := int64(0); at < st.Size; {
		start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break // only a hole is left
		}
		if err != nil {
			return nil, fmt.Errorf("lseek SEEK_DATA: %w", err)
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return nil, fmt.Errorf("lseek SEEK_HOLE: %w", err)
		}
		if end <= start {
			return nil, fmt.Errorf("%w: it changed while it was saved", ErrRefused)
		}
		end = min(end, st.Size)
		runs = append(runs, Run{start, end - start})
		at = end
	}
	return runs, nil
}

func quotePath(p string) string { return fdwalk.Quote("/" + p) }
