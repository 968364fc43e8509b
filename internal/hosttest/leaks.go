package hosttest

import (
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/goleak"
)

// state is what existed when the tests began. Only what is new afterwards is a leak.
type state struct {
	goroutines goleak.Option
	descriptor map[string]int  // target: how many
	mounts     map[string]int  // mountinfo lines of this mount namespace
	shared     map[string]bool // objects of the host that carry tolbooth's prefix
}

func look() state {
	startPoller()
	return state{
		goroutines: goleak.IgnoreCurrent(),
		descriptor: descriptors(),
		mounts:     mounts(),
		shared:     shared(),
	}
}

// leaks lists what is new: own belongs to this process for sure, others may have been made by another one.
func (s state) leaks() (own, others []string) {
	own = append(own, more("descriptor", s.descriptor, descriptors())...)
	own = append(own, strayThreads()...)
	own = append(own, children()...)
	if err := goleak.Find(s.goroutines, goleak.IgnoreTopFunction("os/signal.loop")); err != nil {
		own = append(own, err.Error())
	}
	others = more("mount", s.mounts, mounts())
	for _, name := range slices.Sorted(maps.Keys(shared())) {
		if !s.shared[name] {
			others = append(others, name)
		}
	}
	return own, others
}

// more lists the keys that now count more than before.
func more(what string, before, now map[string]int) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if n := now[key] - before[key]; n > 0 {
			list = append(list, fmt.Sprintf("%d × %s %s", n, what, key))
		}
	}
	return list
}

// startPoller makes the runtime open its epoll and event descriptors, which it keeps, before they are counted.
func startPoller() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	r.Close()
	w.Close()
}

// descriptors counts open files by what they point at.
func descriptors() map[string]int {
	count := map[string]int{}
	for _, entry := range readDir("/proc/self/fd") {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		if err != nil || strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/fd") {
			continue // closed meanwhile, or the directory being read
		}
		kind, _, numbered := strings.Cut(target, ":[")
		if numbered && kind != "anon_inode" { // socket:[123]: the number is new each time
			target = kind
		}
		count[target]++
	}
	return count
}

func mounts() map[string]int {
	count := map[string]int{}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return count
	}
	for line := range strings.Lines(string(text)) {
		count[strings.TrimSpace(line)]++
	}
	return count
}

// strayThreads lists threads that sit in another network namespace than the process: such a thread goes back to the
// scheduler's pool and carries some later goroutine into the wrong network.
func strayThreads() []string {
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil
	}
	var list []string
	for _, task := range readDir("/proc/self/task") {
		ns, err := os.Readlink(filepath.Join("/proc/self/task", task.Name(), "ns/net"))
		if err == nil && ns != home {
			list = append(list, fmt.Sprintf("thread %s in %s, the process is in %s", task.Name(), ns, home))
		}
	}
	return list
}

// children lists processes whose parent is this one, zombies included.
func children() []string {
	self := strconv.Itoa(os.Getpid())
	var list []string
	for _, entry := range readDir("/proc") {
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue
		}
		// pid (comm) state ppid …; comm may hold spaces and brackets.
		head, tail, ok := cutLast(string(stat), ") ")
		fields := strings.Fields(tail)
		if ok && len(fields) > 1 && fields[1] == self {
			list = append(list, "child process "+head+"), state "+fields[0])
		}
	}
	return list
}

// shared lists the host's objects that carry tolbooth's prefixes.
func shared() map[string]bool {
	found := map[string]bool{}
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "tb-") {
			found["cgroup "+path] = true
		}
		return nil // what cannot be read is not ours
	})
	for _, entry := range readDir("/sys/fs/bpf") {
		if strings.HasPrefix(entry.Name(), "tb-") {
			found["bpffs directory "+entry.Name()] = true
		}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return found
	}
	for _, i := range interfaces {
		if strings.HasPrefix(i.Name, "tb") {
			found["network interface "+i.Name] = true
		}
	}
	return found
}

func readDir(path string) []fs.DirEntry {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	return entries
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
