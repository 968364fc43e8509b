package probe

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

const yamaScope = "kernel.yama.ptrace_scope"

// ptraceLayer seizes a child as the warden does. The child is this very program, stopped before its first instruction
// and killed there, so nothing of it runs.
func ptraceLayer(host settings) Layer {
	scope := host.sysctl(yamaScope)
	if scope == "3" { // not even a child that asks for it
		return missing("ptrace", "ptrace blocked by yama=3", "sysctl "+yamaScope+" is 3, which holds until the next boot: boot with a lower one")
	}
	if err := inThread(seizeChild); err != nil {
		return missing("ptrace", err.Error(), ptraceFix(err, scope, host))
	}
	found := "seize with TRACESECCOMP and EXITKILL"
	if scope != "" {
		found += ", yama=" + scope
	}
	return ok("ptrace", found)
}

func ptraceFix(err error, scope string, host settings) string {
	fix := "use a kernel with ptrace"
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		fix = "grant CAP_SYS_PTRACE"
		if scope == "2" {
			fix += ", which sysctl " + yamaScope + "=2 asks for"
		}
	}
	if outside := host.outside(); outside != "" {
		fix += "; what confines this process must allow ptrace(2) too: " + outside
	}
	return fix
}

// seizeChild needs its thread for itself: a tracee belongs to the thread that traces it.
func seizeChild() (err error) {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"probe"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return fmt.Errorf("start a child that is traced: %w", err)
	}
	defer func() { err = errors.Join(err, endChild(pid)) }()

	if err := awaitStop(pid); err != nil {
		return err
	}
	// Let go with a stop signal: the child stops again before it runs anything, untraced and ready to be seized.
	if err := ptrace(unix.PTRACE_DETACH, pid, 0, uintptr(syscall.SIGSTOP)); err != nil {
		return fmt.Errorf("ptrace (PTRACE_DETACH): %w", err)
	}
	if err := awaitStop(pid); err != nil {
		return err
	}
	const options = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACECLONE
	if err := ptrace(unix.PTRACE_SEIZE, pid, 0, options); err != nil {
		return fmt.Errorf("ptrace (PTRACE_SEIZE): %w", err)
	}
	return nil
}

func awaitStop(pid int) error {
	var status syscall.WaitStatus
	if _, err := wait(pid, &status, syscall.WUNTRACED); err != nil {
		return fmt.Errorf("wait4 for the child's stop: %w", err)
	}
	if !status.Stopped() {
		return fmt.Errorf("the traced child ended with status %#x instead of stopping", int(status))
	}
	return nil
}

// endChild kills the child and reaps it.
func endChild(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	for {
		var status syscall.WaitStatus
		_, err := wait(pid, &status, 0)
		if err != nil {
			return fmt.Errorf("wait4: %w", err)
		}
		if status.Exited() || status.Signaled() {
			return nil
		}
	}
}

func wait(pid int, status *syscall.WaitStatus, options int) (int, error) {
	for {
		got, err := syscall.Wait4(pid, status, options|unix.WALL, nil)
		if !errors.Is(err, syscall.EINTR) {
			return got, err
		}
	}
}

func ptrace(request, pid int, addr, data uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), addr, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
