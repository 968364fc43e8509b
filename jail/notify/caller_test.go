package notify

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

// noCall is a number that no kernel has.
const noCall = 0x1fff

// listening runs fn on a thread of its own with a filter that hands noCall over, and with its listener. What fn starts has the
// filter too. The listener is closed at the end, the thread's end included.
func listening(t *testing.T, fn func(Listener)) {
	t.Helper()
	hosttest.Filters(t)
	hosttest.Kernel(t, 5, 19, "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV")
	var l Listener
	var err error
	completed := false
	hosttest.OnOwnThread(func() {
		if l, err = installListener(); err != nil {
			return
		}
		fn(l)
		completed = true
	})
	if err != nil {
		t.Fatalf("install a filter with a listener: %v", err)
	}
	_ = l.Close() // a test may have closed it
	if !completed {
		t.FailNow() // fn called FailNow, which ended its goroutine only
	}
}

func installListener() (Listener, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return Listener{}, err
	}
	code := []unix.SockFilter{
		{Code: cbpf.OpLoadWord}, {Code: cbpf.OpEqual, K: noCall, Jf: 1}, {Code: cbpf.OpReturn, K: cbpf.Notify}, {Code: cbpf.OpReturn, K: cbpf.Allow},
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return Listener{}, errno
	}
	return New(int(fd)), nil
}

func mustReceive(t *testing.T, l Listener) Call {
	t.Helper()
	call, err := l.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// callerArgs is the environment variable that makes this test binary a caller: one call for each of its words, their first
// argument. It prints what they return: a descriptor's inode and whether it is closed at execve, or -errno.
const callerArgs = "TOLBOOTH_NOTIFY_CALLER"

func makeCalls() {
	for word := range strings.FieldsSeq(os.Getenv(callerArgs)) {
		arg, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			panic(err)
		}
		fd, _, errno := unix.Syscall6(noCall, uintptr(arg), 1, 2, 3, 4, ^uintptr(0))
		if errno != 0 {
			fmt.Printf("-%d ", int(errno))
			continue
		}
		var st unix.Stat_t
		flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
		if err != nil || unix.Fstat(int(fd), &st) != nil {
			panic(fmt.Sprintf("descriptor %d: %v", fd, err))
		}
		fmt.Printf("%d/%d ", st.Ino, flags&unix.FD_CLOEXEC)
	}
	os.Exit(0)
}

// caller is a process that makes calls.
type caller struct {
	cmd *exec.Cmd
	out bytes.Buffer
	pid int
}

// startCaller starts one from the calling thread, whose filter it gets.
func startCaller(t *testing.T, args ...uint64) *caller {
	t.Helper()
	c := &caller{cmd: exec.Command("/proc/self/exe")}
	c.cmd.Env = append(os.Environ(), callerArgs+"="+strings.Trim(fmt.Sprint(args), "[]"))
	c.cmd.Stdout, c.cmd.Stderr = &c.out, os.Stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.pid = c.cmd.Process.Pid
	return c
}

func (c *caller) wait(t *testing.T) string {
	t.Helper()
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("caller: %v", err)
	}
	return strings.TrimSpace(c.out.String())
}

// kill returns when the caller is gone.
func (c *caller) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // it was killed
}
