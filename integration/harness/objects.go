package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/google/go-cmp/cmp"
)

// Objects counts what an agent holds in the kernel and on disk. Two equal values a job apart mean that the job left
// nothing behind.
type Objects struct {
	Descriptors int // of the agent
	Processes   int // descendants of the agent: wardens, inits, jobs
	Cgroups     int // below the agent's own, in every hierarchy
	Links       int // network interfaces in the agent's namespace
	Netns       int // distinct network namespaces that the agent holds by descriptor
	Mounts      int // in the agent's mount namespace
	RunDirs     int // working directories of jobs
}

// slack is how far descriptors may be off: connections and runtime pollers come and go.
const slack = 2

// Objects counts what is there once it has come to rest: after a job the agent prepares the next place.
func (a *Agent) Objects() Objects {
	a.t.Helper()
	a.Client.Close() // idle connections: the client keeps as many as it once needed at the same time
	last, same := a.objects(), 0
	for range 100 {
		time.Sleep(Slow / 10)
		now := a.objects()
		if now != last {
			last, same = now, 0
			continue
		}
		if same++; same == 8 {
			break
		}
	}
	return last
}

func (a *Agent) objects() Objects {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.PID))
	runs, _ := os.ReadDir(filepath.Join(a.State, "run"))
	spaces := map[string]bool{}
	for _, fd := range fds {
		if l, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", a.PID, fd.Name())); err == nil && strings.HasPrefix(l, "net:[") {
			spaces[l] = true
		}
	}
	return Objects{
		Descriptors: len(fds),
		Processes:   len(descendants(a.PID)),
		Cgroups:     a.cgroups(),
		Links:       links(a.PID),
		Netns:       len(spaces),
		Mounts:      strings.Count(Mounts(strconv.Itoa(a.PID)), "\n"),
		RunDirs:     len(runs),
	}
}

// Mounts lists the mounts that a process sees, as in /proc/PID/mountinfo. Images on loop devices are left out: tests of other
// packages mount them meanwhile, and no agent does.
func Mounts(pid string) string {
	var kept strings.Builder
	all, _ := os.ReadFile("/proc/" + pid + "/mountinfo")
	for line := range strings.Lines(string(all)) {
		if !strings.Contains(line, " /dev/loop") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// WaitObjects waits until the agent holds what it held before and returns the difference when it does not.
func (a *Agent) WaitObjects(before Objects, limit time.Duration) string {
	a.t.Helper()
	a.Client.Close()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		now := a.objects()
		if d := now.Descriptors - before.Descriptors; d >= -slack && d <= slack {
			now.Descriptors = before.Descriptors
		}
		if now == before {
			return ""
		}
		if time.Now().After(deadline) {
			return cmp.Diff(before, now)
		}
	}
}

// Instance is the mark of this agent's kernel objects.
func (a *Agent) Instance() string {
	b, err := os.ReadFile(filepath.Join(a.State, "instance"))
	if err != nil {
		a.t.Fatalf("read the agent's instance: %v", err)
	}
	return strings.TrimSpace(string(b))
}

// cgroups counts directories below any cgroup named after the agent's instance.
func (a *Agent) cgroups() int {
	n := 0
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/tb-"+a.Instance()) {
			n++
		}
		return nil
	})
	return n
}

func links(pid int) int {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return -1
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return -1
	}
	defer h.Close()
	ls, err := h.LinkList()
	if err != nil {
		return -1
	}
	return len(ls)
}

// descendants lists all processes below pid, whoever their parent is now within that tree.
func descendants(pid int) []int {
	children := map[int][]int{}
	procs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range procs {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		// pid (comm) state ppid …; comm may hold anything, so start after its last parenthesis.
		rest := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(rest) < 2 {
			continue
		}
		ppid, _ := strconv.Atoi(rest[1])
		self, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		children[ppid] = append(children[ppid], self)
	}
	var out []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		out = append(out, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return out
}
