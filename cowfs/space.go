package cowfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space is an amount of disk: bytes of blocks, and inodes.
type Space struct{ Bytes, Inodes int64 }

// Plus and Minus calculate with both at once.
func (s Space) Plus(o Space) Space  { return Space{s.Bytes + o.Bytes, s.Inodes + o.Inodes} }
func (s Space) Minus(o Space) Space { return Space{s.Bytes - o.Bytes, s.Inodes - o.Inodes} }

// Over tells whether either exceeds that of limit.
func (s Space) Over(limit Space) bool { return s.Bytes > limit.Bytes || s.Inodes > limit.Inodes }

// InUse is what everybody together has taken of the state file system. It costs one system call whatever the file system
// holds, and no job grows without it: see Support.Prompt for where that is not so.
func (m *Manager) InUse() (Space, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(m.run.Fd()), &fs); err != nil {
		return Space{}, fmt.Errorf("statfs of the state file system: %w", err)
	}
	return Space{
		Bytes:  int64(fs.Blocks-fs.Bfree) * fs.Frsize,
		Inodes: int64(fs.Files - fs.Ffree),
	}, nil
}

// promptFS are the file systems whose statfs(2) counts a write when it is made. Others tell when they have written it out.
var promptFS = map[string]bool{"ext4": true, "xfs": true, "tmpfs": true}
