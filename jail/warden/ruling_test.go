package warden

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// TestRule: whatever sent a call to the warden, our program alone says what that is answered, and none of its answers lets it run.
func TestRule(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer uint32 // of our program
		raw    bool   // the job may have raw sockets
		ruling ruling
		errno  unix.Errno
	}{
		{"refused", cbpf.Trace | uint32(unix.EPERM), false, refused, unix.EPERM},
		{"no errno", cbpf.Trace, false, refused, unix.EPERM},
		{"no errno of the kernel's", cbpf.Trace | maxErrno + 1, false, refused, unix.EPERM},
		{"raw socket", cbpf.Trace | cbpf.Broker, true, brokered, 0},
		{"no raw socket", cbpf.Trace | cbpf.Broker, false, refused, unix.EPERM},
		{"allowed, and another filter asked", cbpf.Allow, true, notOurs, unix.ENOSYS},
		{"quietly refused, and another filter asked", cbpf.Errno | uint32(unix.EPERM), true, notOurs, unix.ENOSYS},
	} {
		r := run{
			warden: &warden{plan: wire.Plan{Listen: true}},
			start:  &wire.Start{RawSocket: c.raw},
			filter: &cbpf.Program{Code: []cbpf.Instruction{{Op: cbpf.OpReturn, K: c.answer}}},
		}
		if ruling, errno, err := r.rule(&cbpf.Call{Arch: cbpf.Native, NR: unix.SYS_SOCKET}); ruling != c.ruling || errno != c.errno || err != nil {
			t.Errorf("%s: ruling %d, %v, %v; want %d, %v", c.name, ruling, errno, err, c.ruling, c.errno)
		}
	}
	r := run{filter: &cbpf.Program{}}
	if ruling, errno, err := r.rule(&cbpf.Call{}); ruling != refused || errno != unix.ENOSYS || err == nil {
		t.Errorf("a program without an answer: ruling %d, %v, %v", ruling, errno, err)
	}
}
