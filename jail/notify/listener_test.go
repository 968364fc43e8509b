package notify

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

func init() {
	if os.Getenv(callerArgs) != "" {
		runtime.LockOSThread() // to the main thread: the calls are then the process's own
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(callerArgs) != "" {
		makeCalls()
	}
	hosttest.Main(m)
}

// TestSizes: the structures are as long as the kernel has them.
func TestSizes(t *testing.T) {
	var sizes struct{ call, answer, data uint16 }
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	if errno != 0 || sizes.call != CallSize || sizes.answer != AnswerSize {
		t.Errorf("the kernel has %+v (%v), this package %d and %d", sizes, errno, CallSize, AnswerSize)
	}
}

// TestRefuse: a call arrives as it was made, and returns the errno that it is answered.
func TestRefuse(t *testing.T) {
	listening(t, func(l Listener) {
		c := startCaller(t, 7, 8)
		for i, arg := range []uint64{7, 8} {
			call := mustReceive(t, l)
			want := Call{cbpf.Call{NR: noCall, Arch: cbpf.Native, Args: [6]uint64{arg, 1, 2, 3, 4, ^uint64(0)}}, call.ID, c.pid}
			if call != want {
				t.Errorf("received %+v, want %+v", call, want)
			}
			if !l.Waits(call) {
				t.Error("it does not wait")
			}
			if err := l.Refuse(call, unix.Errno(100+i)); err != nil {
				t.Fatal(err)
			}
			if l.Waits(call) {
				t.Error("it still waits")
			}
		}
		if got := c.wait(t); got != "-100 -101" {
			t.Errorf("the caller saw %q", got)
		}
	})
}

// TestGive: the caller gets the descriptor, closed at execve or not as it is told.
func TestGive(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	var st unix.Stat_t
	if err := unix.Fstat(pipe[0], &st); err != nil {
		t.Fatal(err)
	}
	listening(t, func(l Listener) {
		c := startCaller(t, 1, 2, 3)
		for _, closeOnExec := range []bool{true, false} {
			if err := l.Give(mustReceive(t, l), pipe[0], closeOnExec); err != nil {
				t.Fatal(err)
			}
		}
		call := mustReceive(t, l)
		if err := l.Give(call, 1<<20, false); !errors.Is(err, unix.EBADF) || !l.Waits(call) { // nothing was given: it waits for another answer
			t.Errorf("gave what is not there: %v", err)
		}
		if err := l.Refuse(call, unix.EMFILE); err != nil {
			t.Fatal(err)
		}
		ino := strconv.FormatUint(st.Ino, 10)
		if got, want := c.wait(t), ino+"/1 "+ino+"/0 -24"; got != want {
			t.Errorf("the caller saw %q, want %q", got, want)
		}
	})
}

// TestKilledWhileServed: whose caller was killed after it was received, a call has no answer, and its number is not another's.
func TestKilledWhileServed(t *testing.T) {
	listening(t, func(l Listener) {
		victim := startCaller(t, 1)
		old := mustReceive(t, l)
		victim.kill(t)
		if l.Waits(old) {
			t.Error("a dead caller waits")
		}
		if err := l.Refuse(old, unix.EPERM); !errors.Is(err, ErrGone) {
			t.Errorf("Refuse: %v", err)
		}
		if err := l.Give(old, 0, false); !errors.Is(err, ErrGone) {
			t.Errorf("Give: %v", err)
		}
		next := startCaller(t, 2)
		call := mustReceive(t, l)
		if call.ID == old.ID || !l.Waits(call) || l.Waits(old) {
			t.Errorf("old %+v, new %+v", old, call)
		}
		old.TID = call.TID // the number went to another process
		if err := l.Refuse(old, unix.EPERM); !errors.Is(err, ErrGone) {
			t.Errorf("Refuse with another's number: %v", err)
		}
		if err := l.Refuse(call, unix.EDOM); err != nil {
			t.Fatal(err)
		}
		if got := next.wait(t); got != "-33" {
			t.Errorf("the next caller saw %q", got)
		}
	})
}

// TestKilledBeforeReceived: a call whose caller died before anyone looked is passed over, and is no end: others have the filter.
func TestKilledBeforeReceived(t *testing.T) {
	listening(t, func(l Listener) {
		victim := startCaller(t, 1)
		fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		for n := 0; n == 0; {
			var err error
			if n, err = unix.Poll(fds, -1); err != nil && err != unix.EINTR {
				t.Fatal(err)
			}
		}
		victim.kill(t)
		next := startCaller(t, 2)
		call := mustReceive(t, l)
		if call.Args[0] != 2 {
			t.Errorf("received %+v, want the living caller's", call)
		}
		if err := l.Refuse(call, unix.EDOM); err != nil {
			t.Fatal(err)
		}
		if got := next.wait(t); got != "-33" {
			t.Errorf("the living caller saw %q", got)
		}
	})
}

// TestEnd: when the last process with the filter is gone, Receive says so, and again.
func TestEnd(t *testing.T) {
	var kept Listener
	listening(t, func(l Listener) {
		fd, err := unix.FcntlInt(uintptr(l.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		kept = Listener{fd}
	})
	defer kept.Close()
	for range 2 {
		if call, err := kept.Receive(); err != io.EOF {
			t.Errorf("%+v, %v", call, err)
		}
	}
}

// TestClosed: without a listener the kernel answers, calls that wait and calls that come.
func TestClosed(t *testing.T) {
	listening(t, func(l Listener) {
		c := startCaller(t, 1, 2)
		mustReceive(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := c.wait(t); got != "-38 -38" {
			t.Errorf("the caller saw %q", got)
		}
	})
}
