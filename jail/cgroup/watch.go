package cgroup

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Event says what the kernel did to a group since the last event. The counters in Usage have the numbers.
type Event struct {
	OOM  bool // it killed a process for lack of memory
	Pids bool // it refused a fork at the pids limit
}

// Watch reports the group's limit events until stop is closed or the group is removed; then it closes the channel.
// It waits for kernel notifications: inotify on memory.events and pids.events, and on v1 an eventfd for memory. Only the
// pids counter of v1 is looked at by a timer, since the kernel raises no notification for it (tried on 6.18).
// A reader that lags gets one event for several; one that leaves closes stop. Events before Watch are not reported: call
// it before the first process.
func (g Group) Watch(stop <-chan struct{}) (<-chan Event, error) {
	var sources []source
	closeAll := func() {
		for _, s := range sources {
			s.file.Close()
		}
	}
	open := func(s source, err error) error {
		if err == nil {
			sources = append(sources, s)
		}
		return err
	}
	var err error
	if dir := g.controller(g.Memory); dir != "" {
		if g.hybrid() {
			err = open(g.watchOOMv1(dir))
		} else {
			err = open(watchFile(counter{dir, "memory.events", "oom_kill", Event{OOM: true}}))
		}
	}
	if dir := g.controller(g.Pids); dir != "" && err == nil {
		c := counter{dir, "pids.events", "max", Event{Pids: true}}
		if g.hybrid() {
			err = open(watchTimer(c))
		} else {
			err = open(watchFile(c))
		}
	}
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("watch cgroup: %w", err)
	}
	return run(sources, stop, closeAll), nil
}

// source is one descriptor that becomes readable when the kernel has something to say.
type source struct {
	file *os.File
	next func(buf []byte) (Event, bool) // after a read of buf: what happened; false: the group is gone
}

func run(sources []source, stop <-chan struct{}, closeAll func()) <-chan Event {
	events := make(chan Event)
	var readers sync.WaitGroup
	for _, s := range sources {
		readers.Go(func() {
			buf := make([]byte, 4096)
			for {
				n, err := s.file.Read(buf)
				if err != nil {
					return // closed below
				}
				e, alive := s.next(buf[:n])
				if !alive {
					return
				}
				if e == (Event{}) {
					continue
				}
				select {
				case events <- e:
				case <-stop:
					return
				}
			}
		})
	}
	gone := make(chan struct{})
	go func() {
		readers.Wait()
		close(gone)
	}()
	go func() {
		select {
		case <-stop:
		case <-gone:
		}
		closeAll()
		<-gone
		close(events)
	}()
	return events
}

// counter is a number in an events file, and the event that its growth stands for.
type counter struct {
	dir, file, key string
	event          Event
}

// follow makes a source of wake: whenever it is readable, the counter is compared with what it was.
func (c counter) follow(wake *os.File) (source, error) {
	last, err := readKey(c.dir, c.file, c.key)
	if err != nil {
		wake.Close()
		return source{}, err
	}
	return source{wake, func([]byte) (Event, bool) {
		now, err := readKey(c.dir, c.file, c.key)
		if err != nil {
			return Event{}, false
		}
		grown := now > last
		last = now
		if !grown {
			return Event{}, true
		}
		return c.event, true
	}}, nil
}

// watchFile wakes when the kernel says that the counter's file has changed.
func watchFile(c counter) (source, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return source{}, fmt.Errorf("inotify_init1: %w", err)
	}
	wake := os.NewFile(uintptr(fd), c.file)
	path := filepath.Join(c.dir, c.file)
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY|unix.IN_DELETE_SELF); err != nil {
		wake.Close()
		return source{}, fmt.Errorf("inotify_add_watch %s: %w", path, err)
	}
	return c.follow(wake)
}

// timerPeriod is how late a refused fork may be seen on v1. A look costs about 10 µs.
const timerPeriod = 200 * time.Millisecond

func watchTimer(c counter) (source, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return source{}, fmt.Errorf("timerfd_create: %w", err)
	}
	wake := os.NewFile(uintptr(fd), c.file)
	every := unix.NsecToTimespec(timerPeriod.Nanoseconds())
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
		wake.Close()
		return source{}, fmt.Errorf("timerfd_settime: %w", err)
	}
	return c.follow(wake)
}

// watchOOMv1 registers an eventfd for memory.oom_control (kernel: Documentation/admin-guide/cgroup-v1/memory.rst).
func (g Group) watchOOMv1(dir string) (source, error) {
	control, err := unix.Open(filepath.Join(dir, "memory.oom_control"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return source{}, fmt.Errorf("open memory.oom_control of %s: %w", dir, err)
	}
	defer unix.Close(control)
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return source{}, fmt.Errorf("eventfd: %w", err)
	}
	file := os.NewFile(uintptr(fd), "memory.oom_control")
	last, err := g.oomKills(dir)
	if err == nil {
		err = write(dir, "cgroup.event_control", fmt.Sprintf("%d %d", fd, control))
	}
	if err != nil {
		file.Close()
		return source{}, err
	}
	return source{file, func(buf []byte) (Event, bool) {
		if len(buf) != 8 || binary.NativeEndian.Uint64(buf) == 0 {
			return Event{}, true
		}
		now, err := g.confirmKill(dir, last)
		if err != nil {
			return Event{}, false // the eventfd also fires when the group is removed
		}
		killed := now > last
		last = now
		return Event{OOM: killed}, true
	}}, nil
}

// confirmKill waits up to a quarter of a second for the kill that follows a v1 notification: the kernel notifies when it
// runs out of memory, which is before it has chosen a victim, and sometimes it then finds memory after all.
func (g Group) confirmKill(dir string, last int64) (int64, error) {
	for wait := 100 * time.Microsecond; ; wait *= 2 {
		now, err := g.oomKills(dir)
		if err != nil || now > last || wait > 200*time.Millisecond {
			return now, err
		}
		time.Sleep(wait)
	}
}
