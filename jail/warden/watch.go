package warden

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// The events that supervise waits for, beside *wire.Signal and *wire.Cancel from the agent.
type (
	executed     struct{ atNS int64 }          // the program's execve happened
	launchClosed struct{ failed *wire.Failed } // launch's socket closed, after a message or without
	programEnd   struct {                      // the main process ended
		status unix.WaitStatus
		atNS   int64
	}
	initEnd  struct{}                   // init is gone
	limitHit struct{ cause wire.Cause } // a limit was reached
	fault    struct {                   // the warden can no longer do its work
		step string
		err  error
	}
)

// post hands an event to supervise; after its decision nobody listens.
func (r *run) post(event any) {
	select {
	case r.events <- event:
	case <-r.over:
	}
}

// watchLaunch takes the listener, in a plan that has one, and waits for launch's socket to close, which execve does.
func (r *run) watchLaunch() {
	if r.plan.Listen {
		if failed := r.takeListener(); failed != nil {
			r.post(launchClosed{failed})
			return
		}
	}
	p, err := r.launch.Recv(0)
	if failed, ok := p.Message.(*wire.Failed); ok {
		r.post(launchClosed{failed})
		return
	}
	if err == nil || !errors.Is(err, io.EOF) {
		r.post(launchClosed{wire.Fail("launch", errors.New("launch sent nonsense"))})
		return
	}
	r.post(launchClosed{})
}

// watchControl passes on what the agent asks for. When the agent is gone the run goes on without it.
func (r *run) watchControl() {
	for {
		p, err := r.control.Recv(0)
		if err != nil {
			return
		}
		switch m := p.Message.(type) {
		case *wire.Signal, *wire.Cancel:
			r.post(m)
		}
	}
}

// watchInit learns of the program's end from init, in a plan without a tracer.
func (r *run) watchInit() {
	died, _, err := wire.Expect[*wire.Died](r.init, 0)
	if err == nil {
		r.post(programEnd{unix.WaitStatus(died.Status), now()})
	}
}

// watchGroup turns the kernel's notifications about the job's cgroup into events.
func (r *run) watchGroup() {
	for e := range r.limits {
		if e.OOM {
			r.post(limitHit{wire.CauseMemory})
		}
		if e.Pids {
			r.post(limitHit{wire.CausePids})
		}
	}
}
