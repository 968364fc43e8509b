package cowfs

import (
	"bytes"
	"context"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// DeletedUsage tells what files occupy that have no name any more, but that one of the processes has open or mapped: a walk
// of the tree does not meet them. A process that ends meanwhile holds none. What is on its way through a unix socket
// (SCM_RIGHTS) and open nowhere is not seen.
func DeletedUsage(ctx context.Context, pids []int) (blocks, inodes int64) {
	d := deleted{seen: map[[2]uint64]bool{}}
	for _, pid := range pids {
		if ctx.Err() != nil {
			break
		}
		proc := "/proc/" + strconv.Itoa(pid)
		d.opened(proc + "/fd/")
		d.mapped(proc)
	}
	return d.bytes, d.inodes
}

type deleted struct {
	seen          map[[2]uint64]bool // device and inode
	bytes, inodes int64
}

func (d *deleted) opened(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return // the process is gone
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			d.look(dir + name)
		}
		if err != nil {
			return
		}
	}
}

// mapped looks at the mappings that the kernel marks as deleted. The mark may also be a name's own end, which costs a look.
func (d *deleted) mapped(proc string) {
	maps, err := os.ReadFile(proc + "/maps")
	if err != nil {
		return
	}
	for line := range bytes.Lines(maps) {
		if span, _, ok := bytes.Cut(line, []byte{' '}); ok && bytes.HasSuffix(line, []byte(" (deleted)\n")) {
			d.look(proc + "/map_files/" + string(span))
		}
	}
}

// look counts the file behind a magic link if it has no name and lies on an overlay: a jail's only one is its root. What is
// in memory (memfd, tmpfs) is charged to the memory limit.
func (d *deleted) look(link string) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(link, &st) != nil || st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	key := [2]uint64{uint64(st.Dev), st.Ino}
	if d.seen[key] || unix.Statfs(link, &fs) != nil || fs.Type != unix.OVERLAYFS_SUPER_MAGIC {
		return
	}
	d.seen[key] = true
	d.bytes += st.Blocks * 512
	d.inodes++
}
