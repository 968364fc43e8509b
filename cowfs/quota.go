package cowfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// Project ids that trees may have. Operators keep their own out of here.
const (
	firstProject = 0x7000_0000
	projects     = 1 << 16
)

// overlayOverhead is what an overlay has of its own in the directories of a tree: upper, work and what the kernel makes in it.
var overlayOverhead = Space{Bytes: 64 << 10, Inodes: 8}

// quota gives trees projects of their own, which the file system holds to limits.
type quota struct {
	fs *os.File // any directory of the file system

	mu   sync.Mutex
	next uint32 // guarded by mu
}

func newQuota(fs *os.File) *quota { return &quota{fs: fs, next: rand.Uint32N(projects)} }

// assign puts new, empty directories into a project that nothing else is in, and returns its id. Trees that are parked or
// still being removed keep theirs, so what counts is what the file system says of an id. Another agent of the same file
// system may choose at the same time; the first to look after it has counts more than its own.
func (q *quota) assign(dirs ...*os.File) (uint32, error) {
	for range projects {
		id := q.choose()
		use, err := projectUse(q.fs, id)
		if err != nil {
			return 0, err
		}
		if use != (Space{}) {
			continue
		}
		for _, dir := range dirs {
			if err := setProject(dir, id); err != nil {
				return 0, err
			}
		}
		if use, err = projectUse(q.fs, id); err != nil {
			return 0, err
		}
		if use.Inodes == int64(len(dirs)) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("all %d project ids from %d on are in use", projects, firstProject)
}

func (q *quota) choose() uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = (q.next + 1) % projects
	return firstProject + q.next
}

// Quota tells whether the file system holds the tree to its limits.
func (t *Tree) Quota() bool { return t.project != 0 }

// Limit has the file system hold the tree to limits, where it can. The job's program meets EDQUOT or ENOSPC there.
func (t *Tree) Limit(bytes, inodes int64) error {
	if t.project == 0 {
		return nil
	}
	return setProjectLimits(t.upper, t.project, Space{bytes, inodes}.Plus(overlayOverhead))
}

// tryQuota says why the file system of a directory cannot hold trees to limits; empty: it can. It goes the whole way that a
// job's write goes, since a limit that a privileged writer or an overlay ignores would be none.
func tryQuota(scratch string, volatile bool) (why string) {
	base := filepath.Join(scratch, "quota")
	var dirs [4]*os.File
	for i, name := range []string{".", "lower", "upper", "work"} {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return err.Error()
		}
		dir, err := os.Open(path)
		if err != nil {
			return err.Error()
		}
		defer dir.Close()
		dirs[i] = dir
	}
	q := newQuota(dirs[0])
	id, err := q.assign(dirs[2], dirs[3])
	if err != nil {
		return err.Error()
	}
	const limit = 1 << 20
	if err := setProjectLimits(q.fs, id, Space{limit, 16}); err != nil {
		return err.Error()
	}
	defer func() {
		if err := setProjectLimits(q.fs, id, Space{}); err != nil && why == "" {
			why = err.Error()
		}
	}()
	mnt, err := mountOverlay(dirs[1:2], dirs[2], dirs[3], volatile)
	if err != nil {
		return err.Error()
	}
	defer mnt.Close()
	return fill(mnt, 2*limit)
}

// fill reserves and writes until it is refused, and says why that is not for lack of quota.
func fill(dir *os.File, size int) string {
	fd, err := unix.Openat(int(dir.Fd()), "f", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Sprintf("openat in a new overlay: %v", err)
	}
	defer unix.Close(fd)
	switch err := unix.Fallocate(fd, 0, 0, int64(size)); {
	case err == nil:
		return fmt.Sprintf("%d bytes were reserved under a limit of half as many", size)
	case !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Sprintf("fallocate: %v", err)
	}
	if err := unix.Ftruncate(fd, 0); err != nil { // a part may have been reserved
		return fmt.Sprintf("ftruncate: %v", err)
	}
	part := make([]byte, 64<<10)
	for written := 0; written < size; written += len(part) {
		_, err := unix.Write(fd, part)
		if errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC) {
			return ""
		}
		if err != nil {
			return fmt.Sprintf("write: %v", err)
		}
	}
	return fmt.Sprintf("%d bytes were written under a limit of half as many", size)
}

// openProject gives a new tree its project.
func (t *Tree) openProject() error {
	if t.m.quota == nil {
		return nil
	}
	work, err := fdwalk.OpenDir(t.dir, "work")
	if err != nil {
		return err
	}
	defer work.Close()
	t.project, err = t.m.quota.assign(t.upper, work)
	return err
}

// closeProject takes the limits back. What is left in the project is removed behind it.
func (t *Tree) closeProject() error {
	if t.project == 0 {
		return nil
	}
	return setProjectLimits(t.m.quota.fs, t.project, Space{})
}
