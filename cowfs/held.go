package cowfs

import (
	"bytes"
	"context"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Held is what processes hold of the disk beside what their tree shows.
type Held struct {
	Space         // files without a name that one of them has open or mapped
	InFlight bool // descriptors are on their way through a unix socket, where nobody can see what they stand for
}

// HeldBy looks at every thread of the processes: a thread may have a table of descriptors of its own, and outlive the first
// one of its process. What ends meanwhile holds nothing. ctx bounds the time.
func HeldBy(ctx context.Context, pids []int) Held {
	h := holders{seen: map[[2]uint64]bool{}}
	for _, pid := range pids {
		h.process(ctx, pid)
	}
	return h.Held
}

type holders struct {
	Held
	seen map[[2]uint64]bool // device and inode
}

func (h *holders) process(ctx context.Context, pid int) {
	var tables []int // threads, one for each table of descriptors
	mapped := false
	for _, tid := range threads(pid) {
		if ctx.Err() != nil {
			return
		}
		proc := "/proc/" + strconv.Itoa(tid)
		if !mapped { // the threads of a process share its memory, and the first may be gone
			mapped = h.mapped(proc)
		}
		if !sharesFiles(tid, tables) && h.opened(proc) {
			tables = append(tables, tid)
		}
	}
}

func threads(pid int) []int {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before the process went
	var tids []int
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// sharesFiles tells whether a thread has the table of one of the others. A kernel without kcmp(2) says no.
func sharesFiles(tid int, others []int) bool {
	const files = 2 // KCMP_FILES
	for _, o := range others {
		if order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(tid), uintptr(o), files, 0, 0, 0); errno == 0 && order == 0 {
			return true
		}
	}
	return false
}

// opened looks at what a thread has open, and says whether there was anything to look at.
func (h *holders) opened(proc string) bool {
	f, err := os.Open(proc + "/fd")
	if err != nil {
		return false
	}
	defer f.Close()
	some := false
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			some = true
			if h.look(proc+"/fd/"+name) == unix.S_IFSOCK && !h.InFlight {
				h.InFlight = carries(proc + "/fdinfo/" + name)
			}
		}
		if err != nil {
			return some
		}
	}
}

// carries tells whether a socket's queue holds descriptors.
func carries(fdinfo string) bool {
	text, err := os.ReadFile(fdinfo)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		if n, ok := bytes.CutPrefix(line, []byte("scm_fds:")); ok {
			return !bytes.Equal(bytes.TrimSpace(n), []byte("0"))
		}
	}
	return false
}

// mapped looks at the mappings that the kernel marks as deleted. The mark may also be a name's own end, which costs a look.
func (h *holders) mapped(proc string) bool {
	maps, err := os.ReadFile(proc + "/maps")
	if err != nil || len(maps) == 0 {
		return false
	}
	for line := range bytes.Lines(maps) {
		if span, _, ok := bytes.Cut(line, []byte{' '}); ok && bytes.HasSuffix(line, []byte(" (deleted)\n")) {
			h.look(proc + "/map_files/" + string(span))
		}
	}
	return true
}

// look counts the file behind a magic link if it has no name and lies on an overlay: a jail's only one that can be written
// is its root. What is in memory (memfd, tmpfs) is charged to the memory limit. It returns the type of the file.
func (h *holders) look(link string) (typ uint32) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(link, &st) != nil {
		return 0
	}
	typ = st.Mode & unix.S_IFMT
	if st.Nlink > 0 || typ != unix.S_IFREG {
		return typ
	}
	key := [2]uint64{uint64(st.Dev), st.Ino}
	if h.seen[key] || unix.Statfs(link, &fs) != nil || fs.Type != unix.OVERLAYFS_SUPER_MAGIC {
		return typ
	}
	h.seen[key] = true
	h.Bytes += st.Blocks * 512
	h.Inodes++
	return typ
}
