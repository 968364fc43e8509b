package bpf

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// dialAsChild connects count times to each of some addresses and prints the errno of each attempt. It sends over UDP
// without connecting, so that the sendmsg hooks are met too.
func dialAsChild(spec string) {
	words := strings.Fields(spec)
	count, err := strconv.Atoi(words[0])
	if err != nil {
		panic(err)
	}
	var out []syscall.Errno
	for _, target := range words[1:] {
		network, address, _ := strings.Cut(target, "/")
		for range count {
			var errno syscall.Errno
			errors.As(attempt(network, address), &errno)
			out = append(out, errno)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
}

func attempt(network, address string) error {
	if network == "tcp" {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
		}
		return err
	}
	to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address))
	c, err := net.ListenUDP(network, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WriteToUDP([]byte("x"), to)
	return err
}

// dialIn runs dialAsChild in a control group. The calling thread's namespace is the child's.
func dialIn(t *testing.T, cgroup string, count int, targets ...string) []syscall.Errno {
	t.Helper()
	dir, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TOLBOOTH_BPF_DIAL="+strconv.Itoa(count)+" "+strings.Join(targets, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var out []syscall.Errno
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// bindCgroup makes a job's control group below the one that e is attached to.
func bindCgroup(t *testing.T, e *Egress, slot uint32, p Policy) (dir string, job Job) {
	t.Helper()
	dir = testCgroup(t, e.cgroup.Name(), "job"+strconv.Itoa(int(slot)))
	id, err := CgroupID(dir)
	if err != nil {
		t.Fatal(err)
	}
	policy, release, err := e.SetPolicy(p)
	if err != nil {
		t.Fatal(err)
	}
	job = Job{Cgroup: id, Slot: slot, Policy: policy}
	if err := e.BindCgroup(job); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := e.cgroup.Stat(); errors.Is(err, os.ErrClosed) {
			return // the test has closed e
		}
		if err := e.UnbindCgroup(id); err != nil {
			t.Error(err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	return dir, job
}

// The namespace has loopback only, so what is not refused fails otherwise: unreachable, or refused by the peer.
const unreachable = syscall.ENETUNREACH

func TestSocketVerdicts(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{Node: prefixes("10.9.0.0/16")})
		allow, job := bindCgroup(t, e, 1, Policy{
			Mode: ModeAllow, Allow: []Rule{rule("10.0.0.0/8", 443, 443, TCP|UDP)}, Deny: []Rule{rule("10.1.0.0/16", 0, 65535, AllProtocols)},
		})
		open, _ := bindCgroup(t, e, 2, Policy{Mode: ModeOpen})
		none, _ := bindCgroup(t, e, 3, Policy{Mode: ModeNone})
		stranger := testCgroup(t, e.cgroup.Name(), "stranger")
		for _, c := range []struct {
			cgroup, target string
			errno          syscall.Errno
			rule           string
		}{
			{allow, "tcp/10.0.0.1:443", unreachable, ""},
			{allow, "udp/10.0.0.1:443", unreachable, ""},
			{allow, "tcp/10.0.0.1:80", syscall.EPERM, "network.default"},
			{allow, "udp4/10.0.0.1:80", syscall.EPERM, "network.default"},
			{allow, "udp6/[2001:db8::1]:443", syscall.EPERM, "network.default"},
			{allow, "udp/10.1.0.1:443", syscall.EPERM, "network.deny"},
			{allow, "tcp/10.9.0.1:443", syscall.EPERM, "network.node"},
			{open, "tcp/10.1.0.1:1", unreachable, ""},
			{open, "tcp/169.254.169.254:80", syscall.EPERM, "network.metadata"},
			{open, "udp4/169.254.169.254:80", syscall.EPERM, "network.metadata"},
			{open, "tcp/[fe80::1]:80", syscall.EPERM, "network.metadata"},
			{open, "tcp/10.9.0.1:443", syscall.EPERM, "network.node"},
			{none, "tcp/10.0.0.1:443", syscall.EPERM, "network.none"},
			{none, "udp4/10.0.0.1:443", syscall.EPERM, "network.none"},
			{none, "udp6/[2001:db8::1]:443", syscall.EPERM, "network.none"},
			{none, "tcp/169.254.169.254:80", syscall.EPERM, "network.metadata"},
			{none, "tcp/127.0.0.1:1", syscall.ECONNREFUSED, ""},
			{none, "tcp/[::1]:1", syscall.ECONNREFUSED, ""},
			{none, "tcp/127.9.9.9:1", syscall.ECONNREFUSED, ""},
			{none, "tcp/0.0.0.0:1", syscall.ECONNREFUSED, ""},
			{none, "udp4/127.0.0.1:1", 0, ""},
			{stranger, "tcp/10.0.0.1:443", syscall.EPERM, "network.none"},
			{stranger, "tcp/127.0.0.1:1", syscall.ECONNREFUSED, ""},
		} {
			if got := dialIn(t, c.cgroup, 1, c.target)[0]; got != c.errno {
				t.Errorf("%s in %s: %v, want %v", c.target, c.cgroup, got, c.errno)
			}
			select {
			case got := <-e.Events():
				if got.Rule != c.rule || got.PID == 0 || got.Program == "" || got.Source == Packet {
					t.Errorf("%s in %s: event %+v, want rule %q", c.target, c.cgroup, got, c.rule)
				}
			case <-time.After(map[bool]time.Duration{true: 0, false: time.Second}[c.rule == ""]):
				if c.rule != "" {
					t.Errorf("%s in %s: no event", c.target, c.cgroup)
				}
			}
		}
		// A job may talk to its own address, and a new policy holds from the next call on.
		job.Addr4 = netip.MustParseAddr("10.9.0.1")
		if err := e.BindCgroup(job); err != nil {
			t.Fatal(err)
		}
		if got := dialIn(t, allow, 1, "tcp/10.9.0.1:443")[0]; got != unreachable {
			t.Errorf("own address: %v, want %v", got, unreachable)
		}
		if err := e.UnbindCgroup(job.Cgroup); err != nil {
			t.Fatal(err)
		}
		if got := dialIn(t, allow, 1, "tcp/10.0.0.1:443")[0]; got != syscall.EPERM {
			t.Errorf("unbound: %v, want EPERM", got)
		}
	})
}

func TestRetryLoopIsAFewEvents(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{})
		dir, _ := bindCgroup(t, e, 5, Policy{Mode: ModeNone})
		const attempts = 2000
		dialIn(t, dir, attempts, "tcp/10.0.0.1:443")
		stats, err := e.Stats(5)
		if err != nil {
			t.Fatal(err)
		}
		if stats.Denied != attempts || stats.Reported+stats.Suppressed+stats.Lost != attempts || stats.Lost != 0 {
			t.Errorf("counters %+v, want %d refusals accounted for", stats, attempts)
		}
		if stats.Reported < 16 || stats.Reported > 400 {
			t.Errorf("%d events for %d attempts at one destination", stats.Reported, attempts)
		}
		var received, stands uint64
		for received < stats.Reported {
			select {
			case got := <-e.Events():
				received++
				stands += uint64(got.Count)
			case <-time.After(time.Second):
				t.Fatalf("%d events, want %d", received, stats.Reported)
			}
		}
		if stands > attempts {
			t.Errorf("events stand for %d refusals of %d", stands, attempts)
		}
	})
}

func TestScanIsBounded(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{})
		dir, _ := bindCgroup(t, e, 5, Policy{Mode: ModeNone})
		var targets []string
		for i := range 3000 {
			targets = append(targets, "udp4/"+netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()+":9")
		}
		start := time.Now()
		for i := 0; i < len(targets); i += 1000 { // an environment variable holds 128 KiB
			dialIn(t, dir, 1, targets[i:i+1000]...)
		}
		windows := uint64(time.Since(start)/time.Second) + 2
		stats, err := e.Stats(5)
		if err != nil {
			t.Fatal(err)
		}
		if stats.Denied != 3000 || stats.Reported > 256*windows || stats.Reported == 0 {
			t.Errorf("counters %+v in %d windows", stats, windows)
		}
	})
}
