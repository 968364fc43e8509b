package ptrace

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

func TestReport(t *testing.T) {
	stop := func(event int, sig unix.Signal) unix.WaitStatus {
		return unix.WaitStatus(event<<16 | int(sig)<<8 | 0x7f)
	}
	for _, c := range []struct {
		name   string
		status unix.WaitStatus
		kind   Kind
		sig    unix.Signal
	}{
		{"exit", 3 << 8, Ended, 0},
		{"killed", unix.WaitStatus(unix.SIGKILL), Ended, 0},
		{"killed with a core", unix.WaitStatus(unix.SIGSEGV) | 0x80, Ended, 0},
		{"signal", stop(0, unix.SIGUSR1), Signalled, unix.SIGUSR1},
		{"its own SIGTRAP", stop(0, unix.SIGTRAP), Signalled, unix.SIGTRAP},
		{"SIGSTOP on its way", stop(0, unix.SIGSTOP), Signalled, unix.SIGSTOP},
		{"syscall stop", stop(0, unix.SIGTRAP|0x80), Other, 0},
		{"seccomp", stop(unix.PTRACE_EVENT_SECCOMP, unix.SIGTRAP), Seccomp, 0},
		{"exec", stop(unix.PTRACE_EVENT_EXEC, unix.SIGTRAP), Exec, 0},
		{"fork", stop(unix.PTRACE_EVENT_FORK, unix.SIGTRAP), Other, 0},
		{"new child", stop(unix.PTRACE_EVENT_STOP, unix.SIGTRAP), Other, 0},
		{"group stop", stop(unix.PTRACE_EVENT_STOP, unix.SIGTSTP), Grouped, unix.SIGTSTP},
	} {
		if kind, sig := Report(c.status); kind != c.kind || sig != c.sig {
			t.Errorf("%s: %d, %d; want %d, %d", c.name, kind, sig, c.kind, c.sig)
		}
	}
}

func TestParseInfo(t *testing.T) {
	b := make([]byte, infoSize)
	b[0] = unix.PTRACE_SYSCALL_INFO_SECCOMP
	binary.NativeEndian.PutUint32(b[4:], 0xc000003e)
	for i := range 7 {
		binary.NativeEndian.PutUint64(b[24+8*i:], uint64(100+i))
	}
	binary.NativeEndian.PutUint32(b[80:], 38)
	got, err := parseInfo(b)
	want := cbpf.Call{NR: 100, Arch: 0xc000003e, Args: [6]uint64{101, 102, 103, 104, 105, 106}}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := parseInfo(b[:83]); err == nil {
		t.Error("a short answer was taken")
	}
	b[0] = unix.PTRACE_SYSCALL_INFO_ENTRY
	if _, err := parseInfo(b); err == nil {
		t.Error("another stop was taken for a seccomp stop")
	}
}
