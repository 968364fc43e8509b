package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/tolbooth-dev/tolbooth/jail/spool"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// StartError says why a jail could not be prepared or a command not be started: which step, and in words what was wrong.
type StartError struct {
	Step   string
	Errno  syscall.Errno // 0: no system call said no
	Detail string
}

func (e *StartError) Error() string { return "start jail: " + e.Step + ": " + e.Detail }

// Unwrap makes errors.Is(err, syscall.ENOENT) work.
func (e *StartError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// Prepared is a jail that waits for its command.
type Prepared struct {
	warden  *wardenProcess
	mode    Mode
	engine  Engine
	plan    wire.Plan
	network bool // it has a network namespace of its own
	built   bool
}

// Prepare starts a warden and its init, and returns when they wait. Everything that does not depend on the job is then done.
func (l *Launcher) Prepare(ctx context.Context, p Place) (*Prepared, error) {
	if p.Hostname == "" {
		p.Hostname = "sandbox"
	}
	plan, ok := p.Mode.Plan(p.Engine)
	if !ok {
		return nil, fmt.Errorf("prepare jail: there is no mode %q with engine %q", p.Mode, p.Engine)
	}
	w, err := l.start(p.Cgroup)
	if err != nil {
		return nil, fmt.Errorf("prepare jail: %w", err)
	}
	var files []*os.File
	if p.Netns != nil {
		files = append(files, p.Netns)
	}
	m := &wire.Prepare{Build: wire.Build, Mode: p.Mode, Engine: p.Engine, UIDBase: p.UIDBase, Cgroup: p.Cgroup, Hostname: p.Hostname}
	if err := w.ask(ctx, m, files, func(reply wire.Message) bool { _, ok := reply.(*wire.Ready); return ok }); err != nil {
		return nil, err
	}
	return &Prepared{warden: w, mode: p.Mode, engine: p.Engine, plan: plan, network: p.Netns != nil}, nil
}

// Close discards a jail that was not started: it is killed and reaped. After Start it does nothing.
func (p *Prepared) Close() error {
	if p.warden == nil {
		return nil
	}
	w := p.warden
	p.warden = nil
	return w.discard()
}

// WardenPID is the warden's process id.
func (p *Prepared) WardenPID() int { return p.warden.pid }

// Build puts the root in place, once, before Start: most of what a start costs, and none of it depends on the command. On an
// error nothing is left of the jail. The Root's files stay the caller's.
func (p *Prepared) Build(ctx context.Context, r Root) error {
	switch {
	case p.warden == nil:
		return errors.New("build root: the jail was started or closed before")
	case p.built:
		return errors.New("build root: it is built already")
	case r.Mount == nil:
		return errors.Join(errors.New("build root: the mount is missing"), p.Close())
	case len(r.Mounts) > wire.MaxFiles-1:
		return errors.Join(fmt.Errorf("build root: %d mounts are over %d", len(r.Mounts), wire.MaxFiles-1), p.Close())
	}
	m, files := &wire.Root{Mode: p.mode, Engine: p.engine, Tmpfs: r.Tmpfs, CPUs: r.CPUs}, []*os.File{r.Mount}
	for _, mount := range r.Mounts {
		m.Mounts = append(m.Mounts, mount.Target)
		files = append(files, mount.File)
	}
	if err := p.warden.ask(ctx, m, files, func(reply wire.Message) bool { _, ok := reply.(*wire.Rooted); return ok }); err != nil {
		p.warden = nil
		return err
	}
	p.built = true
	return nil
}

// Start hands over the command, and returns when its execve has happened. On an error nothing is left of the jail. The
// Spec's files stay the caller's. Precondition: Build.
func (p *Prepared) Start(ctx context.Context, s Spec) (*Process, error) {
	if p.warden == nil {
		return nil, errors.New("start jail: it was started or closed before")
	}
	if !p.built {
		return nil, errors.Join(errors.New("start jail: its root is not built"), p.Close())
	}
	m, files, err := s.message(p)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start jail: %w", err), p.Close())
	}
	w := p.warden
	p.warden = nil
	if err := w.ask(ctx, m, files, func(reply wire.Message) bool { _, ok := reply.(*wire.Started); return ok }); err != nil {
		return nil, err
	}
	return newProcess(w, s.Grace), nil
}

// message checks a Spec and puts it into words for the warden.
func (s *Spec) message(p *Prepared) (*wire.Start, []*os.File, error) {
	switch {
	case s.Spool == nil:
		return nil, nil, errors.New("the spool is missing")
	case p.plan.Filter && len(s.Filter) == 0:
		return nil, nil, fmt.Errorf("mode %s needs a filter", p.mode)
	case !p.plan.Filter && len(s.Filter) > 0:
		return nil, nil, fmt.Errorf("mode %s takes no filter", p.mode)
	case s.RawSocket && !p.plan.Listen:
		return nil, nil, fmt.Errorf("RawSocket needs the engine %s: the warden makes the socket and hands it over", wire.Notify)
	case s.RawSocket && !p.network:
		return nil, nil, errors.New("RawSocket needs a network namespace of the jail's own")
	case s.BaseExecOnly && s.Landlock == nil:
		return nil, nil, errors.New("BaseExecOnly needs Landlock rules")
	case s.UID == 0 || s.GID == 0:
		return nil, nil, errors.New("the program may not have the jail's id 0")
	}
	if err := wire.CheckCommand(s.Command, s.Env); err != nil {
		return nil, nil, err
	}
	m := &wire.Start{
		Exec: wire.Exec{
			Mode: p.mode, Engine: p.engine, Command: s.Command, Env: s.Env, Cwd: s.Cwd, UID: s.UID, GID: s.GID, Rlimits: s.Rlimits, Filter: s.Filter,
			CPUs: s.CPUs, BaseExecOnly: s.BaseExecOnly,
		},
		Resize: wire.Resize{Tmpfs: s.Resize, Shown: s.Shown, UserNS: s.UserNS}, Stdin: s.Stdin != nil, Notify: s.Notify != nil, RawSocket: s.RawSocket,
		ZeroNS: spool.Monotonic(s.Started), SentNS: spool.MonotonicNow(),
		WallNS: int64(s.Wall), CPUNS: int64(s.CPU), OutputBytes: s.Output,
	}
	if s.BaseExecOnly {
		m.Resize.NoExec = s.Landlock.Write
	}
	if s.Landlock != nil {
		m.Landlocked, m.Landlock = true, *s.Landlock
	}
	files := []*os.File{s.Spool}
	for _, f := range []*os.File{s.Stdin, s.Notify} {
		if f != nil {
			files = append(files, f)
		}
	}
	return m, files, nil
}

// ask sends a message and waits for the reply it wants. Whatever else happens ends the warden: its own word that a step failed,
// its death, the end of ctx.
func (w *wardenProcess) ask(ctx context.Context, m wire.Message, files []*os.File, wanted func(wire.Message) bool) error {
	stop := context.AfterFunc(ctx, func() { _ = w.conn.Interrupt() })
	reply, err := w.exchange(m, files)
	if stop() && err == nil && wanted(reply) {
		return nil
	}
	cleared := w.discard()
	switch reply := reply.(type) {
	case *wire.Failed:
		err = &StartError{reply.Step, reply.Errno, w.appendLastWords(reply.Detail)}
	case *wire.Ended:
		err = startErrorOf(reply)
	default:
		err = &StartError{Step: "warden", Detail: w.epitaph(err)}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("start jail: %w", context.Cause(ctx))
	}
	return errors.Join(err, cleared)
}

func (w *wardenProcess) exchange(m wire.Message, files []*os.File) (wire.Message, error) {
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn() // Fd would make the file blocking
		if err != nil {
			return nil, fmt.Errorf("descriptor of %s: %w", f.Name(), err)
		}
		if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return nil, fmt.Errorf("descriptor of %s: %w", f.Name(), err)
		}
	}
	sendErr := w.conn.Send(m, fds...)
	runtime.KeepAlive(files)
	p, err := w.conn.Recv(0) // a warden that has closed its end may have said why
	if err != nil && sendErr != nil {
		err = sendErr
	}
	return p.Message, err
}
