package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// Control is the descriptor of launch's socket to the warden.
const Control = 3

// Main is the role launch. It returns only when the program could not be started.
//
// Preconditions: the calling goroutine is locked to the main thread.
func Main() int {
	unix.CloseOnExec(Control)
	conn, err := wire.NewConn(os.NewFile(Control, "control"))
	if err != nil {
		return 2
	}
	// Not dumpable, so that no process of the jail can look into this one once it has the program's ids.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fail(conn, wire.Fail("dumpable", call("prctl(PR_SET_DUMPABLE)", err)))
	}
	m, p, err := wire.Expect[*wire.Exec](conn, 4)
	if err != nil {
		return 1 // nobody is there to be told
	}
	plan, ok := m.Mode.Plan(m.Engine)
	if !ok {
		return fail(conn, wire.Fail("plan", fmt.Errorf("no plan for mode %q with engine %q", m.Mode, m.Engine)))
	}
	s := &stage{Exec: *m, conn: conn}
	if err := s.take(plan, p.Files); err != nil {
		return fail(conn, wire.Fail("receive", err))
	}
	for _, step := range steps(plan) {
		if err := step.do(s); err != nil {
			return fail(conn, wire.Fail(step.name, err))
		}
	}
	return 2 // the last step does not return without an error
}

func fail(conn *wire.Conn, f *wire.Failed) int {
	if conn.Send(f) != nil {
		return 2 // the socket closes, and the warden says that launch died
	}
	return 1
}

// take sorts the descriptors that came with Exec.
func (s *stage) take(plan wire.Plan, files []int) error {
	want := 2
	if s.Stdin {
		want++
	}
	if plan.Chroot {
		want++
	}
	if len(files) != want {
		return fmt.Errorf("got %d descriptors, want %d", len(files), want)
	}
	s.stdio[0], s.root = -1, -1
	if s.Stdin {
		s.stdio[0], files = files[0], files[1:]
	}
	s.stdio[1], s.stdio[2], files = files[0], files[1], files[2:]
	if plan.Chroot {
		s.root = files[0]
	}
	if len(s.Filter) > 0 != plan.Filter {
		return errors.New("a filter is required in this mode, or forbidden")
	}
	return nil
}

// call names the system call in its error; nil stays nil.
func call(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}
