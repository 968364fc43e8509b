package cowfs

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// DiskUsage tells what the job's writes occupy: bytes of disk blocks and inodes. It may run beside the jail; what the jail
// changes meanwhile is seen or not. A file with several names counts once. ctx bounds the time.
func (t *Tree) DiskUsage(ctx context.Context) (bytes, inodes int64, err error) {
	if t.upper == nil {
		return 0, 0, fmt.Errorf("disk usage: tree is not mounted")
	}
	u := usage{ctx: ctx, linked: map[uint64]bool{}}
	var walk fdwalk.Walk
	err = walk.Each(t.upper, u.visit)
	return u.bytes, u.inodes, err
}

type usage struct {
	ctx           context.Context
	linked        map[uint64]bool // inodes with several names that were counted
	bytes, inodes int64
}

func (u *usage) visit(_ *os.File, _ string, st *unix.Stat_t) error {
	if u.inodes%512 == 0 {
		if err := u.ctx.Err(); err != nil {
			return fmt.Errorf("disk usage: %w", err)
		}
	}
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		// Whiteouts too: the kernel links them all to one inode.
		if u.linked[st.Ino] {
			return nil
		}
		u.linked[st.Ino] = true
	}
	u.inodes++
	u.bytes += st.Blocks * 512
	return nil
}
