package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// RestoreOptions bound what is restored.
type RestoreOptions struct {
	IDBase     uint32
	MaxEntries int64
	MaxBytes   int64 // of data
}

// Stats are the counts of one restore.
type Stats struct {
	Entries, Files, Bytes int64
}

// Restore makes the snapshot's tree in root, an empty directory that nobody else can reach yet. After an error the
// directory holds a part of the tree and must be thrown away.
//
// Nothing in the manifest is trusted: every name is one component without "..", made in a directory that this restore
// made itself and entered by descriptor without following links, and never over something that exists.
func (r *Reader) Restore(ctx context.Context, root *os.File, o RestoreOptions) (Stats, error) {
	if r.Manifest.Entries > o.MaxEntries || r.Manifest.Bytes > o.MaxBytes {
		return Stats{}, fmt.Errorf("%w: %d entries and %d bytes, the limits are %d and %d",
			ErrTooLarge, r.Manifest.Entries, r.Manifest.Bytes, o.MaxEntries, o.MaxBytes)
	}
	if err := r.plan(ctx, o); err != nil {
		return Stats{}, err
	}
	x := &restorer{r: r, ctx: ctx, o: o, root: root}
	defer x.stack.Close()
	defer func() {
		if x.file != nil {
			x.file.Close()
		}
	}()
	err := r.Entries(ctx, x.visit)
	if err == nil {
		err = x.endFile()
	}
	for err == nil && len(x.dirs) > 0 {
		err = x.leave()
	}
	return x.stats, err
}

// plan reads the tree once without its data: it is checked as a whole before anything is made, and it is known how much
// of each pack is wanted.
func (r *Reader) plan(ctx context.Context, o RestoreOptions) error {
	need := map[PackID]int64{}
	var last *Segment
	var bytes, entries int64
	err := r.Entries(ctx, func(e *Entry) error {
		if entries++; entries > 2*o.MaxEntries+1<<20 {
			return fmt.Errorf("%w: too many entries", ErrTooLarge)
		}
		for _, x := range e.Extents {
			if bytes += x.Length; bytes > o.MaxBytes {
				return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, o.MaxBytes)
			}
			if last == nil || *last != *x.Segment {
				need[x.Segment.Pack] += int64(x.Segment.Packed)
				last = x.Segment
			}
		}
		return nil
	})
	r.need = need
	return err
}

type restorer struct {
	r     *Reader
	ctx   context.Context
	o     RestoreOptions
	root  *os.File
	stack fdwalk.Stack
	dirs  []*Entry // entered directories, outermost first: their attributes are set when they are left
	file  *os.File // being filled, open for reading, while More entries may follow
	entry *Entry   // of file
	stats Stats
}

func (x *restorer) visit(e *Entry) error {
	if e.Kind == More {
		return x.fill(e)
	}
	if err := x.endFile(); err != nil {
		return err
	}
	if x.stats.Entries++; x.stats.Entries%256 == 0 {
		if err := x.ctx.Err(); err != nil {
			return err
		}
	}
	if e.Path == "" {
		dir, err := fdwalk.OpenDir(x.root, ".")
		if err != nil {
			return err
		}
		x.dirs = append(x.dirs, e)
		return x.stack.Push(dir)
	}
	for len(x.dirs) > strings.Count(e.Path, "/")+1 {
		if err := x.leave(); err != nil {
			return err
		}
	}
	if err := x.make(e, path.Base(e.Path)); err != nil {
		return fmt.Errorf("restore %s: %w", quotePath(e.Path), err)
	}
	return nil
}

// make makes one entry in the directory on top of the stack. Whatever exists already is an error.
func (x *restorer) make(e *Entry, name string) error {
	dir := int(x.stack.Top().Fd())
	switch e.Kind {
	case Dir:
		if err := unix.Mkdirat(dir, name, 0o700); err != nil {
			return fmt.Errorf("mkdirat: %w", err)
		}
		sub, err := fdwalk.OpenDir(x.stack.Top(), name)
		if err != nil {
			return err
		}
		x.dirs = append(x.dirs, e)
		return x.stack.Push(sub)
	case File:
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return fmt.Errorf("openat (O_EXCL): %w", err)
		}
		x.file, x.entry = os.NewFile(uintptr(fd), name), e
		x.stats.Files++
		return x.fill(e)
	case Hardlink:
		return x.link(e, dir, name)
	case Whiteout:
		return wrap("mknodat whiteout", unix.Mknodat(dir, name, unix.S_IFCHR, 0))
	case Symlink:
		if err := unix.Symlinkat(e.Target, dir, name); err != nil {
			return fmt.Errorf("symlinkat: %w", err)
		}
		if err := x.chown(dir, name, e); err != nil {
			return err
		}
		return wrap("utimensat", unix.UtimesNanoAt(dir, name, times(e), unix.AT_SYMLINK_NOFOLLOW))
	case Fifo, Socket:
		mode := uint32(unix.S_IFIFO)
		if e.Kind == Socket {
			mode = unix.S_IFSOCK
		}
		if err := unix.Mknodat(dir, name, mode|0o600, 0); err != nil {
			return fmt.Errorf("mknodat: %w", err)
		}
		return x.special(e, dir, name)
	}
	return fmt.Errorf("%w: %v", ErrCorrupt, e.Kind)
}

// special sets the attributes of a fifo or socket, which must not be opened.
func (x *restorer) special(e *Entry, dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("openat (O_PATH): %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return x.attributes(f, e)
}

// fill writes the extents of an entry into the open file.
func (x *restorer) fill(e *Entry) error {
	for _, run := range e.Extents {
		plain, err := x.r.read(x.ctx, run.Segment)
		if err != nil {
			return err
		}
		// A continuation's bounds could not be checked without the file's size.
		if run.Offset+run.Length > x.entry.Size {
			return fmt.Errorf("%w: %s has data beyond its end", ErrCorrupt, quotePath(e.Path))
		}
		if x.stats.Bytes += run.Length; x.stats.Bytes > x.o.MaxBytes {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, x.o.MaxBytes)
		}
		if err := writeAt(x.file, plain[run.Start:][:run.Length], run.Offset); err != nil {
			return fmt.Errorf("write %s: %w", quotePath(e.Path), err)
		}
	}
	return nil
}

// writeAt writes through a descriptor that is there no longer than the write, and that no process is started beside. One
// that is being started has a copy of every descriptor until its execve; with a copy of this one the file would still be
// open for writing when a job executes it (ETXTBSY).
func writeAt(f *os.File, data []byte, offset int64) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	w, err := os.OpenFile(fdPath(f), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = w.WriteAt(data, offset)
	return errors.Join(err, w.Close())
}

// endFile completes the open file.
func (x *restorer) endFile() error {
	if x.file == nil {
		return nil
	}
	f, e := x.file, x.entry
	x.file, x.entry = nil, nil
	defer f.Close()
	if err := os.Truncate(fdPath(f), e.Size); err != nil {
		return fmt.Errorf("restore %s: truncate: %w", quotePath(e.Path), err)
	}
	if err := x.attributes(f, e); err != nil {
		return fmt.Errorf("restore %s: %w", quotePath(e.Path), err)
	}
	return nil
}

// leave completes the innermost directory: after its content, which would change its times, and which a default ACL
// would have been inherited by.
func (x *restorer) leave() error {
	e := x.dirs[len(x.dirs)-1]
	x.dirs = x.dirs[:len(x.dirs)-1]
	if err := x.attributes(x.stack.Top(), e); err != nil {
		return fmt.Errorf("restore %s: %w", quotePath(e.Path), err)
	}
	return x.stack.Pop()
}

// attributes sets owner, mode, attributes and times, in this order: chown(2) clears set-id bits and capabilities.
func (x *restorer) attributes(f *os.File, e *Entry) error {
	at := fdPath(f)
	if err := unix.Fchownat(int(f.Fd()), "", x.id(e.UID), x.id(e.GID), unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("fchownat: %w", err)
	}
	if err := unix.Chmod(at, e.Mode); err != nil {
		return fmt.Errorf("chmod: %w", err)
	}
	if e.Opaque {
		if err := unix.Setxattr(at, opaqueName, []byte("y"), 0); err != nil {
			return fmt.Errorf("setxattr %s: %w", opaqueName, err)
		}
	}
	for _, attr := range e.Xattrs {
		value, err := shiftXattr(attr.Name, attr.Value, int64(x.o.IDBase))
		if err != nil {
			return err
		}
		if err := unix.Setxattr(at, attr.Name, value, 0); err != nil {
			return fmt.Errorf("setxattr %.80q: %w", attr.Name, err)
		}
	}
	return wrap("utimensat", unix.UtimesNanoAt(unix.AT_FDCWD, at, times(e), 0))
}

func (x *restorer) chown(dir int, name string, e *Entry) error {
	return wrap("fchownat", unix.Fchownat(dir, name, x.id(e.UID), x.id(e.GID), unix.AT_SYMLINK_NOFOLLOW))
}

// id is the host's id of a jail id; check has seen that it is one of the jail's.
func (x *restorer) id(jail uint32) int { return int(x.o.IDBase) + int(jail) }

// link gives an earlier file of this restore another name.
func (x *restorer) link(e *Entry, dir int, name string) error {
	above, err := x.descend(path.Dir(e.Target))
	if err != nil {
		return fmt.Errorf("%w: hard link to %s: %w", ErrCorrupt, quotePath(e.Target), err)
	}
	defer above.Close()
	base := path.Base(e.Target)
	var st unix.Stat_t
	if err := unix.Fstatat(int(above.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("%w: hard link to %s: %w", ErrCorrupt, quotePath(e.Target), err)
	}
	if kind, err := kindOf(&st); err != nil || kind == Dir || kind == Whiteout {
		return fmt.Errorf("%w: hard link to %s, which is no file", ErrCorrupt, quotePath(e.Target))
	}
	return wrap("linkat", unix.Linkat(int(above.Fd()), base, dir, name, 0))
}

// descend opens a directory of this restore component by component, so that no length of path is too long.
func (x *restorer) descend(rel string) (*os.File, error) {
	dir, err := fdwalk.OpenDir(x.root, ".")
	if err != nil || rel == "." {
		return dir, err
	}
	for name := range strings.SplitSeq(rel, "/") {
		sub, err := fdwalk.OpenDir(dir, name)
		if err := errors.Join(err, dir.Close()); err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}

func times(e *Entry) []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: e.MtimeSec, Nsec: int64(e.MtimeNsec)}}
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
