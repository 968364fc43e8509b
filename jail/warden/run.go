package warden

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/ptrace"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// run is one job in the jail.
type run struct {
	*warden
	start     *wire.Start
	record    *recorder
	pump      *pump
	denials   *denials
	filter    *cbpf.Program // in a plan that filters: the one that launch loads
	program   int           // host pid of the main process
	pidfd     int           // of it: signals never reach another process that got its number
	landlock  int
	coreSched bool
	exitKill  bool   // the kernel kills the jail with this process
	own       ownCPU // since the program's execve

	events chan any      // for supervise
	over   chan struct{} // closed when supervise has decided: events no longer matter
	reaped chan struct{} // closed when no child and no tracee is left
}

// handed are the descriptors of Start by name.
type handed struct {
	spool, stdin, notify int // -1: not given
}

func sortFiles(m *wire.Start, files []int) (handed, error) {
	h := handed{stdin: -1, notify: -1}
	want := 1
	if m.Stdin {
		want++
	}
	if m.Notify {
		want++
	}
	if len(files) != want {
		return h, fmt.Errorf("got %d descriptors, want %d", len(files), want)
	}
	h.spool, files = files[0], files[1:]
	if m.Stdin {
		h.stdin, files = files[0], files[1:]
	}
	if m.Notify {
		h.notify = files[0]
	}
	return h, nil
}

// run takes one job from Start to its end and returns the exit code of the role.
func (w *warden) run(m *wire.Start, files []int) int {
	h, err := sortFiles(m, files)
	if err != nil {
		return w.giveUp(wire.Fail("receive", err))
	}
	record := newRecorder(h.spool, h.notify, m.ZeroNS)
	r := &run{
		warden: w, start: m, record: record, denials: newDenials(record),
		events: make(chan any), over: w.unwatch, reaped: make(chan struct{}),
	}
	if w.plan.Filter {
		if r.filter, err = cbpf.Decode(m.Filter); err != nil {
			return w.giveUp(wire.Fail("filter", err))
		}
	}
	pipes, err := makePipes(int(w.uidBase+m.UID), int(w.uidBase+m.GID))
	if err != nil {
		return w.giveUp(wire.Fail("pipes", err))
	}
	if r.pump, err = newPump(pipes, m.OutputBytes, record, r.post); err != nil {
		return w.giveUp(wire.Fail("pipes", err))
	}
	go r.pump.run()
	if err := r.poise(h, pipes); err != nil {
		close(r.over)
		go r.finish(startFailed(err))
	} else {
		go func() { r.finish(r.supervise()) }()
	}
	r.follow()
	close(r.reaped)
	select {} // finish ends the process
}

// poise brings launch to the point where only its filter and execve are left, and seizes it there.
func (r *run) poise(h handed, pipes pipes) error {
	defer pipes.closeWriters()
	m := r.start
	go r.watchGroup()
	if r.ownNet { // else the table is the node's, and does not say whose a socket is
		go r.watchNetlink()
	}
	if !m.Resize.Empty() {
		if err := r.init.Send(&m.Resize); err != nil {
			return wire.Fail("init", err)
		}
		if err := r.rooted(); err != nil {
			return err
		}
	}
	var files []int
	if m.Exec.Stdin = m.Stdin; m.Stdin {
		files = append(files, h.stdin)
	}
	files = append(files, pipes.out[1], pipes.err[1])
	if r.plan.Chroot {
		files = append(files, r.root)
	}
	if err := r.launch.Send(&m.Exec, files...); err != nil {
		return r.launchError(err)
	}
	// The jail has its own now. A job's files must not stay open here when the agent takes its mounts apart.
	for _, fd := range []int{r.root, h.stdin} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	poised, p, err := wire.Expect[*wire.Poised](r.launch, 0)
	if err != nil {
		return r.launchError(err)
	}
	r.program, r.landlock, r.coreSched = p.PID, poised.Landlock, poised.CoreSched
	return r.release()
}

// launchError says why launch no longer answers. When init died, the kernel killed launch with it.
func (r *run) launchError(err error) error {
	if (errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE)) && hungUp(r.init.FD()) {
		return wire.Fail("init", errors.New("init was killed"))
	}
	if errors.Is(err, io.EOF) {
		return wire.Fail("launch", errors.New("launch died before it was ready"))
	}
	return err
}

// release lets launch go on, once it is traced and can be signalled.
func (r *run) release() (err error) {
	if r.pidfd, err = unix.PidfdOpen(r.program, 0); err != nil {
		return wire.Fail("launch", fmt.Errorf("pidfd_open: %w", err))
	}
	// The node's memory runs out before its agent is chosen to die.
	path := "/proc/" + strconv.Itoa(r.program) + "/oom_score_adj"
	if err := os.WriteFile(path, []byte("1000"), 0); err != nil {
		return wire.Fail("oom_score_adj", err)
	}
	if err := r.seize(); err != nil {
		return wire.Fail("trace", err)
	}
	go r.watchLaunch()
	go r.watchControl()
	if !r.plan.Trace {
		go r.watchInit()
	}
	if err := r.launch.Send(&wire.Go{}); err != nil {
		return r.launchError(err)
	}
	return nil
}

// seize traces what the plan says. With a listener it is init alone, so that the jail dies with this process whatever else
// fails; where the node forbids that, its parent-death signal remains, and the exit says so.
func (r *run) seize() error {
	switch {
	case r.plan.Trace:
		r.exitKill = true
		return ptrace.Seize(r.program)
	case r.plan.Listen:
		err := ptrace.SeizeForLife(r.pid)
		r.exitKill = err == nil
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	return nil
}

// startFailed is the end of a run whose program never ran.
func startFailed(err error) wire.Exit {
	e := wire.Exit{Cause: wire.CauseStartFailed, Step: "warden", Error: err.Error()}
	var failed *wire.Failed
	if errors.As(err, &failed) {
		e.Step, e.Error, e.Errno = failed.Step, failed.Detail, int(failed.Errno)
	}
	return e
}

// recorder appends to the spool and wakes its readers.
type recorder struct {
	spool  *spool.Writer
	notify int
	zeroNS int64
}

func newRecorder(fd, notify int, zeroNS int64) *recorder {
	return &recorder{spool.NewWriterAt(os.NewFile(uintptr(fd), "spool"), zeroNS), notify, zeroNS}
}

// elapsedUS is the time since the run was admitted.
func (r *recorder) elapsedUS() int64 { return (spool.MonotonicNow() - r.zeroNS) / 1000 }

func (r *recorder) append(kind spool.Kind, payload []byte) error {
	if err := r.spool.Append(kind, payload); err != nil {
		return err
	}
	if r.notify < 0 {
		return nil
	}
	one := [8]byte{1}                                                                                  // the counter is in the machine's order, and any number but 0 wakes
	if _, err := unix.Write(r.notify, one[:]); err != nil && err != unix.EAGAIN && err != unix.EINTR { // EAGAIN: it is awake
		return fmt.Errorf("write to eventfd: %w", err)
	}
	return nil
}
