package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// samples are one message of each kind, every field set.
func samples() []Message {
	exec := Exec{
		Mode: Syd, Engine: Notify, Command: []string{"a", ""}, Env: []string{"K=V"}, Cwd: "/w", UID: 1, GID: 2, Rlimits: []Rlimit{{7, 1 << 63}},
		Filter: []byte{1, 2, 3}, Landlocked: true, Landlock: Landlock{Write: []string{"/x"}}, Stdin: true,
		CPUs: []int{3, 5}, BaseExecOnly: true,
	}
	tmpfs := []Tmpfs{{"/tmp", 1, 2, 0o1777, 3, 4}}
	resize := Resize{tmpfs, []int{1}, true, []string{"/tmp"}}
	return []Message{
		&Prepare{"dev", Minimal, Ptrace, 1 << 31, cgroup.Group{Unified: "/a", Memory: "/b", Pids: "/c", CPU: "/d"}, "host"},
		&Hello{}, &Ready{12}, &Start{exec, resize, true, true, true, -1, 2, 3, 4, 5}, &Root{Syd, Notify, []string{"/usr"}, tmpfs, []int{0}},
		&Rooted{}, &exec, &Poised{7, true}, &Go{}, &Started{-9}, &Signal{15}, &Cancel{CauseDisk, 5}, &Died{0x8b}, &Ended{[]byte(`{}`)},
		&Failed{"execve", unix.ENOENT, "no such file"}, &resize, &Listener{},
	}
}

func TestEveryMessageSurvives(t *testing.T) {
	seen := map[uint32]bool{}
	for _, m := range samples() {
		b, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: %+v became %+v, %v", m, m, got, err)
		}
		if seen[m.kind()] {
			t.Errorf("%T has a kind that is taken", m)
		}
		seen[m.kind()] = true
		for n := range b { // cut short anywhere, or too long by one
			if _, err := Decode(b[:n]); err == nil {
				t.Errorf("%T cut to %d of %d bytes was taken", m, n, len(b))
			}
		}
		if _, err := Decode(append(b, 0)); err == nil {
			t.Errorf("%T with one byte more was taken", m)
		}
	}
	if n := uint32(len(seen)); newMessage(n) == nil || newMessage(n+1) != nil || newMessage(0) != nil {
		t.Errorf("%d kinds tried, there are others", n)
	}
}

func TestTooLong(t *testing.T) {
	if _, err := Encode(&Ended{make([]byte, MaxMessage)}); err == nil {
		t.Error("encoded")
	}
	if _, err := Decode(make([]byte, MaxMessage+1)); err == nil {
		t.Error("decoded")
	}
}

// FuzzDecode: any bytes are refused, or are the one encoding of what they decode to.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(m)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x decoded to %+v, which encodes to %x, %v", b, m, again, err)
		}
	})
}

func conns(t *testing.T) (a, b *Conn) {
	t.Helper()
	x, y, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = NewConn(x); err != nil {
		t.Fatal(err)
	}
	if b, err = NewConn(y); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestConn(t *testing.T) {
	a, b := conns(t)
	if err := unix.SetsockoptInt(b.FD(), unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(&Ready{3}, 0, 1); err != nil {
		t.Fatal(err)
	}
	m, p, err := Expect[*Ready](b, 2)
	if err != nil || m.Init != 3 || len(p.Files) != 2 || p.PID != os.Getpid() {
		t.Fatalf("got %+v, %v", p, err)
	}
	for _, fd := range p.Files {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %#x, %v", fd, flags, err)
		}
	}
	CloseFiles(p.Files)
}

// TestUnwantedFiles: what nobody asked for is an error, and closed; hosttest looks for the leak.
func TestUnwantedFiles(t *testing.T) {
	a, b := conns(t)
	for _, wanted := range []int{0, 1, 2} {
		if err := a.Send(&Go{}, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0); err != nil {
			t.Fatal(err)
		}
		if p, err := b.Recv(wanted); err == nil {
			t.Errorf("wanted %d, took %+v", wanted, p)
		}
	}
	if err := a.Send(&Hello{}, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Expect[*Go](b, 1); err == nil {
		t.Error("took a Hello for a Go")
	}
}

func TestFailedIsAnError(t *testing.T) {
	a, b := conns(t)
	if err := a.Send(Fail("cwd", unix.ENOENT)); err != nil {
		t.Fatal(err)
	}
	_, _, err := Expect[*Go](b, 0)
	var failed *Failed
	if !errors.As(err, &failed) || failed.Step != "cwd" || failed.Errno != unix.ENOENT {
		t.Errorf("error %v", err)
	}
}

func TestEnd(t *testing.T) {
	a, b := conns(t)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Recv(0); err != io.EOF {
		t.Errorf("Recv: %v", err)
	}
	if err := b.Send(&Go{}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("Send: %v", err)
	}
}

// TestLargestCommand sends the largest Start there can be. It must fit without CAP_NET_ADMIN too.
func TestLargestCommand(t *testing.T) {
	a, b := conns(t)
	m := &Start{Exec: Exec{Command: []string{strings.Repeat("c", MaxArguments)}, Filter: make([]byte, 32<<10)}}
	for range 200 {
		m.Env = append(m.Env, "")
	}
	sent := make(chan error, 1)
	go func() { sent <- a.Send(m) }()
	got, _, err := Expect[*Start](b, 0)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Error("it changed on the way")
	}
}

func TestCheckCommand(t *testing.T) {
	big := strings.Repeat("x", 100<<10)
	for _, c := range []struct {
		command, env []string
		want         string
	}{
		{[]string{"true"}, nil, ""},
		{nil, nil, "empty"},
		{[]string{""}, nil, "empty"},
		{[]string{"a", "b\x00"}, nil, "argument 1 contains a NUL"},
		{[]string{"a"}, []string{"A=1", "\x00"}, "environment variable 1 contains a NUL"},
		{[]string{"a", strings.Repeat("x", 128<<10)}, nil, "argument 1 has 131072 bytes"},
		{[]string{"a", big, big}, []string{big}, "limit is 262144"},
	} {
		err := CheckCommand(c.command, c.env)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
