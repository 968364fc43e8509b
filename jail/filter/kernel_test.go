package filter

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// The tests here load the program into the kernel, in a child that is this test binary again. The child never runs as
// root: a refused call that got through should do no harm.

// childMode is the environment variable that makes TestChild act; its value says how.
const childMode = "TOLBOOTH_FILTER_CHILD"

// Modes of the child. No tracer is there, so that the kernel answers a Trace with ENOSYS; errnos makes each one the errno
// that the warden would give.
const (
	modeTrace  = "trace"
	modeErrnos = "errnos"
	modeI386   = "i386"
)

// outcome is one call that the child made under the filter.
type outcome struct {
	Call  string
	Args  [6]uint64
	Errno syscall.Errno
}

// TestRefusedByTheKernel makes every refused call of the table, with zeros and with the arguments of each rule, and
// expects the policy's errno from the kernel.
func TestRefusedByTheKernel(t *testing.T) {
	p := mustDefault(t)
	got := runChild(t, modeErrnos)
	for _, o := range got {
		call, _ := p.Lookup(o.Call)
		if v := p.Evaluate(p.AuditArch(), call.NR, o.Args); o.Errno != v.Errno {
			t.Errorf("%s%#x = %v, policy says %v", o.Call, o.Args, o.Errno, v.Errno)
		}
	}
	if len(got) < 150 {
		t.Errorf("only %d refusals tried", len(got))
	}
}

// TestAllowedByTheKernel does ordinary work under the program as it is shipped.
func TestAllowedByTheKernel(t *testing.T) {
	for _, o := range runChild(t, modeTrace) {
		want := syscall.Errno(0)
		if o.Call == "ptrace" || o.Call == "x32 read" {
			want = unix.ENOSYS
		}
		if o.Errno != want {
			t.Errorf("%s = %v, want %v", o.Call, o.Errno, want)
		}
	}
}

// TestForeignABIInTheKernel makes an i386 call from a 64-bit program. The program exits with 0 when the kernel said
// ENOSYS, with 1 when it said anything else.
func TestForeignABIInTheKernel(t *testing.T) {
	hosttest.Need(t, "arch", runtime.GOARCH == "amd64", "only amd64 programs have an instruction for 32-bit calls")
	plain := i386Call(t).Run()
	var exit *exec.ExitError
	hosttest.Need(t, "kernel", errors.As(plain, &exit) && exit.ExitCode() == 1, fmt.Sprintf("kernel without i386 calls: %v", plain))
	if got := runChild(t, modeI386); len(got) != 1 || got[0].Errno != 0 {
		t.Errorf("i386 call under the filter: %+v", got)
	}
}

// TestChild is the child's side. In the parent it does nothing.
func TestChild(t *testing.T) {
	mode := os.Getenv(childMode)
	if mode == "" {
		return
	}
	runtime.LockOSThread()
	p := mustDefault(t)
	raw := mustCompile(t, p).Bytes()
	if mode == modeErrnos {
		asErrnos(raw)
	}
	load(t, raw)
	var outcomes []outcome
	switch mode {
	case modeErrnos:
		outcomes = refused(p)
	case modeTrace:
		outcomes = ordinary(p)
	case modeI386:
		outcomes = []outcome{{Call: "i386 getpid", Errno: exitErrno(i386Call(t).Run())}}
	}
	if err := json.NewEncoder(os.NewFile(3, "outcomes")).Encode(outcomes); err != nil {
		t.Fatal(err)
	}
	os.Exit(0)
}

func runChild(t *testing.T, mode string) []outcome {
	t.Helper()
	hosttest.Filters(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	text := make(chan []byte, 1)
	go func() {
		var outcomes json.RawMessage
		_ = json.NewDecoder(r).Decode(&outcomes) // an empty answer is reported below
		text <- outcomes
	}()
	out, err := cmd.CombinedOutput()
	w.Close()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	var outcomes []outcome
	if err := json.Unmarshal(<-text, &outcomes); err != nil {
		t.Fatalf("child's answer: %v\n%s", err, out)
	}
	return outcomes
}

// load installs the program for this thread alone.
func load(t *testing.T, raw []byte) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	prog := unix.SockFprog{
		Len:    uint16(len(raw) / cbpf.InstructionSize),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0])),
	}
	const setModeFilter = 1
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, setModeFilter, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		t.Fatalf("seccomp: %v", errno)
	}
	runtime.KeepAlive(raw)
}

// asErrnos turns every answer "trace, with this errno" into "this errno".
func asErrnos(raw []byte) {
	for b := range slices.Chunk(raw, cbpf.InstructionSize) {
		if k := binary.LittleEndian.Uint32(b[4:]); binary.LittleEndian.Uint16(b) == cbpf.OpReturn && k&0xffff0000 == cbpf.Trace {
			binary.LittleEndian.PutUint32(b[4:], cbpf.Errno|k&0xffff)
		}
	}
}

// refused makes calls that the policy refuses.
func refused(p policy.Policy) []outcome {
	var done []outcome
	try := func(c policy.Call, args [6]uint64) {
		if p.Evaluate(p.AuditArch(), c.NR, args).Action != policy.Allow {
			done = append(done, outcome{c.Name, args, raw(c.NR, args)})
		}
	}
	for c := range p.Calls() {
		try(c, [6]uint64{})
		for _, k := range c.Cases {
			var args, dirty [6]uint64
			for _, m := range k.When {
				args[m.Arg] = m.In[0]
				dirty[m.Arg] = m.In[0] | ^m.Mask
			}
			try(c, args)
			try(c, dirty)
		}
	}
	return done
}

// ordinary does what programs do, and two things that they may not.
func ordinary(p policy.Policy) []outcome {
	var done []outcome
	note := func(what string, err error) {
		errno := syscall.Errno(0)
		if err != nil && !errors.As(err, &errno) {
			errno = unix.EIO
		}
		done = append(done, outcome{Call: what, Errno: errno})
	}
	for name, s := range map[string][3]int{
		"unix socket":          {unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0},
		"tcp socket":           {unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP},
		"udp socket":           {unix.AF_INET, unix.SOCK_DGRAM, 0},
		"route netlink socket": {unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE},
	} {
		fd, err := unix.Socket(s[0], s[1], s[2])
		note(name, err)
		if err == nil {
			unix.Close(fd)
		}
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	note("open", err)
	_, err = unix.Write(null, []byte("x"))
	note("write", err)
	note("close", unix.Close(null))
	fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	note("memfd_create", err)
	note("ftruncate", unix.Ftruncate(fd, 4096))
	var stx unix.Statx_t
	note("statx", unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_BASIC_STATS, &stx))
	note("faccessat2", unix.Faccessat2(unix.AT_FDCWD, "/", unix.R_OK, unix.AT_EACCESS))
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC}
	dir, err := unix.Openat2(unix.AT_FDCWD, "/", &how)
	note("openat2", err)
	note("close_range", unix.CloseRange(uint(dir), uint(dir), 0))
	note("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
	var set unix.CPUSet
	note("sched_getaffinity", unix.SchedGetaffinity(0, &set))
	_, err = unix.Getrandom(make([]byte, 8), 0)
	note("getrandom", err)
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	note("pidfd_open", err)
	note("pidfd_send_signal", unix.PidfdSendSignal(pidfd, 0, nil, 0))
	note("vfork and execve", exec.Command("/bin/true").Run())
	ptrace, _ := p.Lookup("ptrace")
	note("ptrace", errOrNil(raw(ptrace.NR, [6]uint64{})))
	if p.Arch() == "amd64" {
		note("x32 read", errOrNil(raw(1<<30, [6]uint64{})))
	}
	return done
}

func raw(nr uint32, a [6]uint64) syscall.Errno {
	_, _, errno := unix.RawSyscall6(uintptr(nr), uintptr(a[0]), uintptr(a[1]), uintptr(a[2]), uintptr(a[3]), uintptr(a[4]), uintptr(a[5]))
	return errno
}

func errOrNil(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func exitErrno(err error) syscall.Errno {
	if err != nil {
		return unix.EIO
	}
	return 0
}
