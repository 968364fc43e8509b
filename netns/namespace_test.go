package netns

import (
	"context"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func inode(t testing.TB, f *os.File) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestNewNamespaceIsEmptyAndApart(t *testing.T) {
	hosttest.Root(t)
	home := must(currentNamespace())(t)
	defer home.Close()
	seen := map[uint64]bool{inode(t, home): true}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			ns, err := New()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { ns.Close() }) // not before all are made: the kernel gives a freed number out again
			links, err := ns.route.LinkList()
			if err != nil || len(links) == 0 || links[0].Attrs().Name != "lo" || links[0].Attrs().Flags&1 == 0 {
				t.Errorf("devices %v (%v), want lo up", links, err)
			}
			for _, l := range links {
				if l.Attrs().Name != "lo" && l.Attrs().Flags&1 != 0 {
					t.Errorf("device %s is up", l.Attrs().Name)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			id := inode(t, ns.File())
			if seen[id] {
				t.Error("a namespace was handed out twice")
			}
			seen[id] = true
		})
	}
	all.Wait()
	// Every thread of this process is back home.
	tasks := must(os.ReadDir("/proc/self/task"))(t)
	want := must(os.Readlink("/proc/self/ns/net"))(t)
	for _, task := range tasks {
		got, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net")
		if err == nil && got != want {
			t.Errorf("thread %s is in %s, not %s", task.Name(), got, want)
		}
	}
}

func TestPool(t *testing.T) {
	hosttest.Root(t)
	for _, size := range []int{0, 1, 3} {
		p := NewPool(size)
		seen := map[uint64]bool{}
		for range 8 {
			ns := must(p.Take(context.Background()))(t)
			if id := inode(t, ns.File()); seen[id] {
				t.Error("a namespace was handed out twice")
			} else {
				seen[id] = true
			}
			defer ns.Close()
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := p.Take(ended); err == nil {
			t.Error("Take ignored its context")
		}
		for range 2 {
			check(t, p.Close())
		}
		if _, err := p.Take(context.Background()); err == nil {
			t.Error("Take from a closed pool")
		}
	}
}

func BenchmarkNew(b *testing.B) {
	hosttest.Root(b)
	for b.Loop() {
		ns := must(New())(b)
		check(b, ns.Close())
	}
}

func BenchmarkTake(b *testing.B) {
	hosttest.Root(b)
	p := NewPool(64)
	defer p.Close()
	for b.Loop() {
		b.StopTimer()
		for p.Ready() == 0 {
			unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
		}
		b.StartTimer()
		ns := must(p.Take(context.Background()))(b)
		b.StopTimer()
		check(b, ns.Close())
		b.StartTimer()
	}
}
