package warden

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

func TestTelling(t *testing.T) {
	args := [6]uint64{1<<32 | 16, 3, 5, 7, 9, 11}
	for _, c := range []struct {
		name string
		call cbpf.Call
		want [6]uint64
	}{
		{"socket", cbpf.Call{Arch: cbpf.Native, NR: unix.SYS_SOCKET, Args: args}, [6]uint64{16, 3, 5}},
		{"ioctl", cbpf.Call{Arch: cbpf.Native, NR: unix.SYS_IOCTL, Args: args}, [6]uint64{0, 3}},
		{"addresses", cbpf.Call{Arch: cbpf.Native, NR: unix.SYS_REBOOT, Args: args}, [6]uint64{}},
		{"another ABI", cbpf.Call{Arch: unix.AUDIT_ARCH_I386, NR: unix.SYS_SOCKET, Args: args}, [6]uint64{}},
	} {
		if got := telling(&c.call); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLastNumber(t *testing.T) {
	for text, want := range map[string]int{
		"Tgid:\t900\nNStgid:\t900\t40\t7\nNSpid:\t1\n": 7, "NStgid:\t5\n": 5, "NStgid:\n": 0, "NStgid:\tx\n": 0, "": 0,
	} {
		if got := lastNumber([]byte(text), "NStgid:"); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestThrottle(t *testing.T) {
	// A machine with other things to do may hold up any one of them: the quickest shows what the free ones cost.
	quickest := time.Hour
	for range 10 {
		th := throttle{tokens: 100}
		start := time.Now()
		for range 100 {
			th.wait()
		}
		quickest = min(quickest, time.Since(start))
		for range 20 {
			th.wait()
		}
		if took := time.Since(start); took < 5*time.Millisecond {
			t.Errorf("120 took %v", took)
		}
	}
	if quickest > 5*time.Millisecond {
		t.Errorf("100 free ones took %v", quickest)
	}
}

// TestNoLongerWaits: what is read about a thread that was killed meanwhile is another's, and is not recorded.
func TestNoLongerWaits(t *testing.T) {
	fd, err := unix.Open(filepath.Join(t.TempDir(), "spool"), unix.O_CREAT|unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	d := newDenials(newRecorder(fd, -1, now()))
	call := cbpf.Call{Arch: cbpf.Native, NR: unix.SYS_BPF}
	for _, waits := range []bool{false, true} {
		if err := d.add(os.Getpid(), &call, unix.EPERM, func() bool { return waits }); err != nil {
			t.Fatal(err)
		}
	}
	for key, denial := range d.seen {
		if key.program == "" && denial.PID != 0 || key.program != "" && denial.PID != os.Getpid() {
			t.Errorf("%q: %+v", key.program, denial)
		}
	}
	if len(d.seen) != 2 {
		t.Errorf("%d kinds", len(d.seen))
	}
}
