package cowfs

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// FileInfo describes a regular file of a tree.
type FileInfo struct {
	Path string // relative to /workspace for Glob, as asked for else; any bytes
	Size int64
	Mode os.FileMode // permissions
}

// ReadFile returns the regular file at p, at most limit bytes of it; a longer one is ErrTooLarge, with its size in the
// FileInfo. Links that stay inside the tree are followed. Anything that is not a regular file is ErrNotRegular, and is
// never opened: no fifo blocks, no device is touched.
func (t *Tree) ReadFile(p string, limit int64) ([]byte, FileInfo, error) {
	rel, err := cleanPath(p)
	if err != nil {
		return nil, FileInfo{}, err
	}
	f, info, err := t.openRegular(rel)
	info.Path = p
	if err != nil {
		return nil, info, fmt.Errorf("read %s: %w", quote(p), err)
	}
	defer f.Close()
	if info.Size > limit {
		return nil, info, fmt.Errorf("read %s: %w: it has %d bytes, the limit is %d", quote(p), ErrTooLarge, info.Size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, info, fmt.Errorf("read %s: %w", quote(p), err)
	}
	if int64(len(data)) > limit {
		return nil, info, fmt.Errorf("read %s: %w: it grew past the limit of %d bytes", quote(p), ErrTooLarge, limit)
	}
	info.Size = int64(len(data))
	return data, info, nil
}

// openRegular opens rel for reading in two steps: a descriptor that touches nothing (O_PATH), and, once it is known to be
// a regular file, the same inode again for reading.
func (t *Tree) openRegular(rel string) (*os.File, FileInfo, error) {
	at, err := t.open(rel, unix.O_PATH)
	if err != nil {
		return nil, FileInfo{}, err
	}
	defer at.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &st); err != nil {
		return nil, FileInfo{}, fmt.Errorf("fstat: %w", err)
	}
	info := FileInfo{Size: st.Size, Mode: os.FileMode(st.Mode & 0o777)}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, info, fmt.Errorf("%w: it is %s", ErrNotRegular, typeName(st.Mode))
	}
	fd, err := unix.Open(fdPath(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, info, fmt.Errorf("open by descriptor: %w", err)
	}
	return os.NewFile(uintptr(fd), rel), info, nil
}
