package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// leastInode is less than the kernel's memory for an empty file on tmpfs, inode and name together.
const leastInode = 512

// full explains "no space left": which file system was full, and which limit makes it larger. A memory file system that
// was full is in the job's peak of memory, which tells apart what the message leaves open.
func (f fileFacts) full(c complaint) (api.Denial, bool) {
	for _, p := range c.paths {
		switch r := regionOf(p); r {
		case regionTmp, regionRun, regionShm:
			return f.memoryFull(r, "write "+shown(p)), true
		case regionDisk:
			return f.diskFull("write " + shown(p)), true
		}
	}
	if len(c.paths) > 0 {
		return api.Denial{}, false
	}
	// Python names no file when a write fails, nor when it makes a lock in shared memory.
	if strings.Contains(c.context, "/multiprocessing/") || strings.Contains(c.context, "/dev/shm") {
		return f.memoryFull(regionShm, "write more to /dev/shm"), true
	}
	return f.someFull("write to a full file system")
}

// memoryFull is about one memory file system. With many small files it is the number of them that ran out.
func (f fileFacts) memoryFull(r region, what string) api.Denial {
	t := f.tmpfs(r)
	if f.peak > 0 && f.peak < t.bytes && f.peak >= leastInode*t.inodes {
		return f.raise([]string{"inodes"}, what, fmt.Sprintf("%s holds %d files at most, limits.inodes", r, t.inodes))
	}
	return f.raise([]string{t.limit}, what, t.why()+", and is full")
}

func (f fileFacts) diskFull(what string) api.Denial {
	switch {
	case !f.quota:
		return refusedFile(what, "file.node_full", whyNodeFull)
	case f.inodes >= f.limits.Inodes.Value:
		return f.limited("inodes", what)
	}
	return f.limited("disk", what)
}

// someFull names every file system that can have been full.
func (f fileFacts) someFull(what string) (api.Denial, bool) {
	var names, whys []string
	for _, r := range []region{regionShm, regionTmp, regionRun} {
		if t := f.tmpfs(r); f.peak >= t.bytes {
			whys = append(whys, t.why())
			if !slices.Contains(names, t.limit) {
				names = append(names, t.limit)
			}
		}
	}
	if f.quota {
		names, whys = append(names, "disk"), append(whys, "/workspace holds "+quantity(f.limits.Disk.Value)+", limits.disk")
	}
	if len(names) == 0 {
		return refusedFile(what, "file.node_full", whyNodeFull), true
	}
	return f.raise(names, what, "by its peak of memory the job can have filled what follows: "+strings.Join(whys, "; ")), true
}

// tmpfsFacts are one memory file system of the job.
type tmpfsFacts struct {
	region        region
	bytes, inodes int64
	limit, share  string
}

func (f fileFacts) tmpfs(r region) tmpfsFacts {
	t := tmpfsFacts{region: r, limit: "memory", share: "half of limits.memory"}
	switch r {
	case regionRun:
		t.share = "an eighth of limits.memory"
	case regionShm:
		t.limit, t.share = "shm", "limits.shm"
	}
	for _, m := range memoryOf(f.limits) {
		if m.Target == string(r) {
			t.bytes, t.inodes = m.Bytes, m.Inodes
		}
	}
	return t
}

func (t tmpfsFacts) why() string {
	return fmt.Sprintf("%s is memory and holds %s, %s", t.region, quantity(t.bytes), t.share)
}
