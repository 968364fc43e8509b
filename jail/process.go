package jail

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"time"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// Process is a command that runs in a jail.
type Process struct {
	warden *wardenProcess
	pid    int
	grace  time.Duration
	done   chan struct{} // closed when the run is over and reaped
	exit   Exit          // valid after done
	err    error         // of the clearing up, valid after done
}

func newProcess(w *wardenProcess, grace time.Duration) *Process {
	p := &Process{warden: w, pid: w.pid, grace: grace, done: make(chan struct{})}
	go p.await()
	return p
}

// WardenPID is the warden's process id.
func (p *Process) WardenPID() int { return p.pid }

// Signal sends a signal to the program's main process. A program that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	return p.tell(&wire.Signal{Number: int(sig)})
}

// Cancel ends the run with a cause. CauseCancelled asks first: TERM, the Spec's Grace, then KILL for the whole cgroup. Every
// other cause kills at once. It does not wait, and can fail only when the run is ending anyway.
func (p *Process) Cancel(cause Cause) {
	m := &wire.Cancel{Cause: cause}
	if cause == CauseCancelled {
		m.GraceNS = int64(p.grace)
	}
	_ = p.tell(m)
}

// Kill ends the run with a cause, and asks nobody.
func (p *Process) Kill(cause Cause) { _ = p.tell(&wire.Cancel{Cause: cause}) }

func (p *Process) tell(m wire.Message) error {
	err := p.warden.conn.Send(m)
	select {
	case <-p.done:
		return nil
	default:
		return err
	}
}

// Wait returns how the run ended, when no process of the jail is left; the warden itself may take some milliseconds more,
// and Launcher.Wait waits for it. If the warden died, that is the Cause. An error means that ctx ended first, or that
// something could not be cleared up.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
}

// await reads until the warden has reported and ended.
func (p *Process) await() {
	reply, err := p.warden.conn.Recv(0)
	if ended, ok := reply.Message.(*wire.Ended); ok {
		err = json.Unmarshal(ended.Exit, &p.exit)
	} else if err == nil {
		err = fmt.Errorf("it sent %T", reply.Message)
	}
	if err != nil {
		p.err = p.warden.discard()
		p.exit = Exit{Cause: CauseLost, Step: "warden", Error: p.warden.epitaph(err)}
		close(p.done)
		return
	}
	close(p.done)       // the warden reports when its jail is empty
	_ = p.warden.reap() // nothing of the jail can be left; the warden kept no one else
}

func startErrorOf(ended *wire.Ended) error {
	var exit Exit
	if err := json.Unmarshal(ended.Exit, &exit); err != nil {
		return fmt.Errorf("decode exit: %w", err)
	}
	if exit.Cause != CauseStartFailed {
		return &StartError{Step: "launch", Detail: fmt.Sprintf("the run ended before execve, by %s %s", exit.Cause, exit.Error)}
	}
	return &StartError{exit.Step, syscall.Errno(exit.Errno), exit.Error}
}
