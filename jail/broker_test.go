package jail

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
)

// ownNetwork is a new network namespace with lo up.
func ownNetwork(t *testing.T) (netns *os.File) {
	t.Helper()
	hosttest.Netns(t, func() {
		var err error
		if netns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { netns.Close() })
	return netns
}

// rawSockets asks for sockets and prints what comes; then it uses the one that it gets.
const rawSockets = `
import errno, fcntl, os, resource, socket, struct
def ask(family, kind, protocol=0):
    try:
        s = socket.socket(family, kind, protocol); fd = s.detach(); os.close(fd); return "ok"
    except OSError as e: return errno.errorcode[e.errno]
I4, I6, RAW, ICMP = socket.AF_INET, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMP
print(ask(I4, RAW, ICMP), ask(I6, RAW, 58), ask(I4, RAW), ask(I4, RAW, 2), ask(I4, socket.SOCK_STREAM), ask(socket.AF_PACKET, RAW), ask(I4, RAW | 1 << 20, ICMP))
s = socket.socket(I4, RAW, ICMP)
def cookie(s): return s.getsockopt(socket.SOL_SOCKET, 71, 8)     # SO_NETNS_COOKIE
print(cookie(s) == cookie(socket.socketpair()[0]))
print(fcntl.fcntl(s, fcntl.F_GETFD), bool(fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK), os.fstat(s.fileno()).st_uid)
def option(*a):
    try: s.setsockopt(*a); return "ok"
    except OSError as e: return errno.errorcode[e.errno]
print(option(socket.SOL_SOCKET, 36, 7), option(socket.SOL_SOCKET, 33, 1 << 20), option(0, 19, 1))     # SO_MARK, SO_RCVBUFFORCE, IP_TRANSPARENT
body = struct.pack("!BBHHH", 8, 0, 0, 1, 1)
total = sum(struct.unpack("!4H", body)); total = (total >> 16) + (total & 0xffff)
s.settimeout(5); s.sendto(body[:2] + struct.pack("!H", 0xffff - total) + body[4:], ("127.0.0.1", 0))
got = [s.recv(100)[20] for _ in range(2)]; print(sorted(got))
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)); print(ask(I4, RAW, ICMP))
`

// TestRawSocket: the warden makes raw IP sockets, no other ones, in the jail's network namespace, and what it hands over gives no
// right that the program lacks.
func TestRawSocket(t *testing.T) {
	s := newSite(t)
	j := s.python(t, Syd, rawSockets)
	j.place.Netns = ownNetwork(t)
	j.spec.Filter, j.spec.RawSocket = filterOf(map[uint32]uint32{unix.SYS_SOCKET: unix.SECCOMP_RET_TRACE | cbpf.Broker}, unix.SECCOMP_RET_ALLOW), true
	o := j.run()
	want := "ok ok EPROTONOSUPPORT EPERM EPERM EPERM EPERM\nTrue\n1 False 1000\nEPERM EPERM EPERM\n[0, 8]\nEMFILE\n"
	if o.Cause != CauseExit || o.stdout != want {
		t.Errorf("exit %+v, printed %q, want %q, %s", o.Exit, o.stdout, want, o.stderr)
	}
	if len(o.denials) != 4 { // IGMP, stream, packet, an unknown bit
		t.Errorf("denials %+v", o.denials)
	}
}

// TestNoRawSocket: a filter that says "broker" gives nothing by itself, and nobody gets what would be the node's.
func TestNoRawSocket(t *testing.T) { everyEngine(t, testNoRawSocket) }

func testNoRawSocket(t *testing.T, s *site) {
	broker := filterOf(map[uint32]uint32{unix.SYS_SOCKET: unix.SECCOMP_RET_TRACE | cbpf.Broker}, unix.SECCOMP_RET_ALLOW)
	j := s.python(t, Syd, "import socket\ntry: socket.socket(2, 3, 1)\nexcept OSError as e: print(e.errno)")
	j.place.Netns, j.spec.Filter = ownNetwork(t), broker
	if o := j.run(); o.stdout != "1\n" || len(o.denials) != 1 {
		t.Errorf("exit %+v, printed %q, denials %+v", o.Exit, o.stdout, o.denials)
	}
	j = s.newJob(t, Syd, "true") // in the network namespace of this process
	j.spec.Filter, j.spec.RawSocket = broker, true
	if _, err := j.try(); err == nil {
		t.Error("started")
	}
	j.close()
}
