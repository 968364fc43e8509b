package warden

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// idCount is how many ids a jail has.
const idCount = 65536

// prepare receives where the jail is to be and brings up its init.
func (w *warden) prepare() error {
	m, p, err := wire.Expect[*wire.Prepare](w.control, 1)
	if err != nil {
		return err
	}
	defer wire.CloseFiles(p.Files)
	if m.Build != wire.Build {
		return wire.Fail("build", fmt.Errorf("the agent is build %q, tolbooth-jail is build %q", m.Build, wire.Build))
	}
	plan, ok := m.Mode.Plan(m.Engine)
	if !ok {
		return wire.Fail("plan", fmt.Errorf("no plan for mode %q with engine %q", m.Mode, m.Engine))
	}
	w.plan, w.group, w.uidBase = plan, m.Cgroup, m.UIDBase
	if len(p.Files) == 1 {
		if err := unix.Setns(p.Files[0], unix.CLONE_NEWNET); err != nil {
			return wire.Fail("netns", fmt.Errorf("setns(CLONE_NEWNET): %w", err))
		}
		w.ownNet = true
	}
	if err := w.startInit(m.Hostname); err != nil {
		return err
	}
	if _, _, err := wire.Expect[*wire.Hello](w.init, 0); err != nil {
		return initError(err)
	}
	return nil
}

// initError words a failed exchange with init: its own message if it sent one.
func initError(err error) error {
	var failed *wire.Failed
	if errors.As(err, &failed) {
		return failed
	}
	return wire.Fail("init", fmt.Errorf("init ended without a word (a cgroup that was killed before kills what is cloned into it): %w", err))
}

// startInit clones init into its namespaces and the job's cgroup, with the sockets to it and to the launch it will start.
func (w *warden) startInit(hostname string) error {
	initEnd, err := w.pair(&w.init)
	if err != nil {
		return wire.Fail("init", err)
	}
	defer initEnd.Close()
	launchEnd, err := w.pair(&w.launch)
	if err != nil {
		return wire.Fail("init", err)
	}
	defer launchEnd.Close()
	// The kernel then adds the sender's pid, as this process sees it, to what launch sends.
	if err := unix.SetsockoptInt(w.launch.FD(), unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return wire.Fail("init", fmt.Errorf("setsockopt(SO_PASSCRED): %w", err))
	}
	dir, err := w.group.DirFD()
	if err != nil {
		return wire.Fail("cgroup", err)
	}
	defer dir.Close()
	leave, err := w.group.EnterV1()
	if err != nil {
		return wire.Fail("cgroup", fmt.Errorf("enter cgroup: %w", err))
	}
	err = asOwner(w.uidBase, func() (err error) {
		w.pid, err = w.clone(hostname, initEnd, launchEnd, dir)
		return err
	})
	if lerr := leave(); lerr != nil && err == nil {
		err = fmt.Errorf("leave cgroup: %w", lerr)
	}
	if err != nil {
		return wire.Fail("clone", err)
	}
	return nil
}

func (w *warden) pair(ours **wire.Conn) (theirs *os.File, err error) {
	a, b, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	if *ours, err = wire.NewConn(a); err != nil {
		return nil, errors.Join(err, a.Close(), b.Close())
	}
	return b, nil
}

// clone starts init. Without Credential it would have no mapped uid and lose its capabilities at execve.
func (w *warden) clone(hostname string, control, launch, cgroup *os.File) (int, error) {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(w.uidBase), Size: idCount}}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"tolbooth-jail", "init", hostname}, &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=1", "GOTRACEBACK=none"},
		Files: []uintptr{0, 1, 2, control.Fd(), launch.Fd()},
		Sys: &syscall.SysProcAttr{
			Cloneflags:                 w.plan.Namespaces,
			UidMappings:                ids,
			GidMappings:                ids,
			GidMappingsEnableSetgroups: true,
			Credential:                 &syscall.Credential{},
			UseCgroupFD:                true,
			CgroupFD:                   int(cgroup.Fd()),
			Pdeathsig:                  syscall.SIGKILL,
		},
	})
	if err != nil {
		return 0, fmt.Errorf("clone init (%#x): %w", w.plan.Namespaces, err)
	}
	return pid, nil
}
