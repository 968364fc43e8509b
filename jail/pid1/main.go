package pid1

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// The descriptors that init is born with.
const (
	Control = 3 // to the warden
	ToExec  = 4 // handed on to launch
)

// Main is the role init. It returns when the warden is gone.
//
// Preconditions: the calling goroutine is locked to the main thread, which is the one that was cloned.
func Main() int {
	conn, err := wire.NewConn(os.NewFile(Control, "control"))
	if err != nil {
		return 2
	}
	if err := prepare(); err != nil {
		_ = conn.Send(wire.Fail("init", err)) // when the warden is gone there is nobody to tell
		return 1
	}
	if conn.Send(&wire.Hello{}) != nil {
		return 1
	}
	// After Hello, while the agent and the warden take their next steps: the start of a Go process is the longest part of
	// starting a command. Launch then waits as well.
	launched, err := startLaunch()
	if err != nil {
		_ = conn.Send(wire.Fail("init", err))
		return 1
	}
	m, p, err := wire.Expect[*wire.Root](conn, wire.MaxFiles)
	if err != nil {
		return 0 // never used
	}
	root, failed := buildRoot(m, p.Files)
	if failed != nil {
		_ = conn.Send(failed)
		return 1
	}
	wire.CloseFiles(p.Files)
	plan, _ := m.Mode.Plan(m.Engine)
	go reap(launched, !plan.Trace, conn)
	return serve(conn, root)
}

// serve says that the root is in place, and changes it as the warden asks, until the warden is gone.
func serve(conn *wire.Conn, root *built) int {
	for {
		if conn.Send(&wire.Rooted{}) != nil {
			return 1
		}
		m, _, err := wire.Expect[*wire.Resize](conn, 0)
		if err != nil {
			return 0
		}
		if failed := root.change(m); failed != nil {
			_ = conn.Send(failed)
			return 1
		}
	}
}

// prepare is what can be done before the job is known.
func prepare() error {
	// Set again here, although the warden's clone set it: a change of ids clears it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_PDEATHSIG): %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_DUMPABLE): %w", err)
	}
	if err := unix.CloseRange(Control, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	// Here and not in the clone, where the cgroup namespace would be rooted at the warden's cgroup.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare(CLONE_NEWCGROUP): %w", err)
	}
	// A clone of a mount namespace into another user namespace is made of slaves: what the node mounts would still arrive.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount(/, MS_REC|MS_PRIVATE): %w", err)
	}
	if len(os.Args) > 2 {
		if err := unix.Sethostname([]byte(os.Args[2])); err != nil {
			return fmt.Errorf("sethostname: %w", err)
		}
	}
	return nil
}

// startLaunch starts launch from the main thread, since the namespaces that it inherits are a thread's. Its runtime does not
// interrupt goroutines by signals: see launch's execute.
func startLaunch() (int, error) {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"tolbooth-jail", "launch"}, &syscall.ProcAttr{
		Env:   append(os.Environ(), "GODEBUG=asyncpreemptoff=1"),
		Files: []uintptr{0, 1, 2, ToExec},
	})
	if err != nil {
		return 0, fmt.Errorf("start launch: %w", err)
	}
	return pid, unix.Close(ToExec)
}

// reap waits for every child until none is left: launch, which becomes the program, and the orphans of the jail. Where no
// tracer sees how the program ends, the warden is told.
func reap(program int, tell bool, conn *wire.Conn) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil: // ECHILD: nothing lives that could leave an orphan
			return
		case pid == program && tell:
			_ = conn.Send(&wire.Died{Status: uint32(status)}) // without the warden the jail ends anyway
		}
	}
}
