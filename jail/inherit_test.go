package jail

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// lookInherited prints what an agent could have passed on, as JSON.
const lookInherited = `
import ctypes, json, os, platform, resource
libc = ctypes.CDLL(None, use_errno=True)
nr = {"x86_64": (250, 252), "aarch64": (219, 31)}[platform.machine()]
search = libc.syscall(nr[0], 10, -3, b"user", b"tolbooth-test", 0)  # KEYCTL_SEARCH in the session keyring
def refused(f, *a):
    try:
        f(*a); return "ok"
    except (OSError, ValueError) as e:
        return getattr(e, "strerror", None) or str(e)
names = "NICE RTPRIO MEMLOCK MSGQUEUE SIGPENDING CORE"
print(json.dumps({
  "key": search if search < 0 else "found", "nice": os.nice(0), "policy": os.sched_getscheduler(0), "ioprio": libc.syscall(nr[1], 1, 0) >> 13,
  "personality": libc.personality(0xffffffff), "slack": int(open("/proc/self/timerslack_ns").read()),
  "limits": {n: resource.getrlimit(getattr(resource, "RLIMIT_" + n)) for n in names.split() if hasattr(resource, "RLIMIT_" + n)},
  "tries": {
    "fifo": refused(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)), "rr": refused(os.sched_setscheduler, 0, os.SCHED_RR, os.sched_param(1)),
    "nice": refused(os.setpriority, os.PRIO_PROCESS, 0, -1), "core": refused(resource.setrlimit, resource.RLIMIT_CORE, (2, 2))},
  "merge": libc.prctl(68, 0, 0, 0, 0),  # PR_GET_MEMORY_MERGE; -1: this kernel does not know it
  "tty": int(open("/proc/self/stat").read().rpartition(")")[2].split()[4]),
  "locked": libc.mlock(ctypes.create_string_buffer(1 << 24), 1 << 24), "few": libc.mlock(ctypes.create_string_buffer(1 << 16), 1 << 16),
}))
`

// TestInherited: an agent that was started in front of others, with fixed addresses and with keys, passes none of it on.
func TestInherited(t *testing.T) {
	s := newSite(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			j := s.python(t, mode, lookInherited)
			if mode == Syd {
				j.spec.Filter = []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f} // allow: what it has counts here, not what it is refused
			}
			defer j.close()
			started := make(chan *Process)
			go func() { // these are a thread's, and this one is never used again
				defer close(started)
				runtime.LockOSThread()
				defer unix.Prctl(unix.PR_SET_MEMORY_MERGE, 0, 0, 0, 0) // the only one that is the process's
				if err := favour(); err != nil {
					t.Error(err)
					return
				}
				started <- j.start()
			}()
			process := <-started
			if process == nil {
				return
			}
			j.wait(process)
			o := j.read()
			merge := 0.
			if unix.Prctl(unix.PR_GET_MEMORY_MERGE, 0, 0, 0, 0) == unix.EINVAL {
				merge = -1
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(o.stdout), &got); err != nil {
				t.Fatalf("%v: %+v %s", err, o.Exit, o.stderr)
			}
			want := map[string]any{
				"key": -1., "nice": 0., "policy": float64(unix.SCHED_NORMAL), "ioprio": 0., "personality": 0., "slack": 50000., "tty": 0., "merge": merge, "locked": -1., "few": 0.,
				"limits": map[string]any{"CORE": []any{1., 1.}, "MEMLOCK": []any{8388608., 8388608.}, "MSGQUEUE": []any{819200., 819200.}, "NICE": []any{0., 0.}, "RTPRIO": []any{0., 0.}, "SIGPENDING": []any{4096., 4096.}},
				"tries": map[string]any{
					"fifo": "Operation not permitted", "rr": "Operation not permitted", "nice": "Permission denied",
					"core": "not allowed to raise maximum limit",
				},
			}
			for name := range want {
				if !reflect.DeepEqual(got[name], want[name]) {
					t.Errorf("%s: %v, want %v", name, got[name], want[name])
				}
			}
		})
	}
}

// favour gives the calling thread what a program must not inherit.
func favour() error {
	const fixedAddresses, realTimeIO = 0x0040000, 1<<13 | 4
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("keyctl: %w", err)
	}
	if _, err := unix.AddKey("user", "tolbooth-test", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		return fmt.Errorf("add_key: %w", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, fixedAddresses, 0, 0); errno != 0 {
		return fmt.Errorf("personality: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_IOPRIO_SET, 1, 0, realTimeIO); errno != 0 {
		return fmt.Errorf("ioprio_set: %w", errno)
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_TIMERSLACK): %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_MEMORY_MERGE, 1, 0, 0, 0); err != nil && err != unix.EINVAL {
		return fmt.Errorf("prctl(PR_SET_MEMORY_MERGE): %w", err)
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -5); err != nil {
		return fmt.Errorf("setpriority: %w", err)
	}
	return nil
}
