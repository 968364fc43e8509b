package socket

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestTracersStayInside: with the extra ptrace a program reaches its own processes only, and a call that it puts into one of
// them at the last moment is refused like any other.
func TestTracersStayInside(t *testing.T) {
	hosttest.Need(t, "arch", runtime.GOARCH == "amd64", "the program knows the registers of amd64")
	a := harness.Start(t, harness.Options{Args: []string{"--extras", "ptrace"}})
	req := program(libc + `
c.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
ATTACH, TRACEME, SYSCALL, GETREGS, SETREGS, SEIZE, SETOPTIONS = 16, 0, 24, 12, 13, 0x4206, 0x4200
for request in ATTACH, SEIZE:
    assert c.ptrace(request, 1, None, None) == -1 and ctypes.get_errno() == 1, "the jail's init is traced"

pid = os.fork()
if pid == 0:
    call('ptrace', TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.getpid()
    os._exit(0)
os.waitpid(pid, 0)
call('ptrace', SETOPTIONS, pid, None, 1 | 0x80)  # TRACESYSGOOD, TRACESECCOMP
regs = (ctypes.c_ulong * 27)()
RAX, ORIG = 10, 15
BPF = 321
while True:
    call('ptrace', SYSCALL, pid, None, None)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSTOPPED(status), "it is gone"
    if status >> 8 != signal.SIGTRAP | 0x80: continue
    call('ptrace', GETREGS, pid, None, regs)
    if regs[ORIG] == 39: break  # getpid
regs[ORIG] = BPF
call('ptrace', SETREGS, pid, None, regs)
call('ptrace', SYSCALL, pid, None, None)
os.waitpid(pid, 0)
call('ptrace', GETREGS, pid, None, regs)
print(ctypes.c_long(regs[RAX]).value)`)
	req.Policy.Extras = []string{"ptrace"}
	res := a.Run(req)
	if res.Outcome != api.OutcomeOK || res.Stdout != "-1\n" {
		t.Errorf("%s %s: %q %q", res.Outcome, res.Detail, res.Stdout, res.Stderr)
	}
	if d := find(res, "syscall.bpf"); d == nil || string(d.Fix) != "null" || !strings.HasPrefix(d.What, "bpf(") {
		t.Errorf("the call is not among the denials: %+v", res.Denials)
	}
}

// TestRefusedExtras: what a node does not permit or cannot do is refused before anything runs, and the node lists it.
func TestRefusedExtras(t *testing.T) {
	a := harness.Start(t, harness.Options{Args: []string{"--explainer", "ptrace", "--extras", "ptrace,userns"}})
	for extra, class := range map[string]string{"ptrace": api.ClassUnsupported, "io_uring": api.ClassForbidden, "root": api.ClassInvalid} {
		_, err := a.Client.Start(t.Context(), api.JobRequest{Command: []string{"true"}, Policy: api.Policy{Extras: []string{extra}}})
		if client.Class(err) != class || !strings.Contains(err.Error(), "policy.extras") {
			t.Errorf("%s: %v, want %s", extra, err, class)
		}
	}
	n, err := a.Client.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for extra, available := range map[string]bool{"ptrace": false, "io_uring": false, "raw_socket": false, "userns": true} {
		if x := n.Policy.Extras[extra]; x.Available != available || x.What == "" || available == (x.Why != "") {
			t.Errorf("%s: %+v", extra, x)
		}
	}
}

// forge sends whole IPv4 packets of UDP: a source of 0.0.0.0 becomes the job's own.
const forge = `
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def send(source, to, text):
    text = text.encode()
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 7, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(to))
    s.sendto(head + struct.pack("!HHHH", 1234, 80, 8 + len(text), 0) + text, (to, 0))
`

// TestRawPacketsAreJudged: a raw socket sends from the job's own address, to where the job may send, and nothing else gets out.
func TestRawPacketsAreJudged(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32", "10.88.0.2/32")
	a := harness.Start(t, harness.Options{Netns: node, Args: []string{"--extras", "raw_socket"}})
	var socket net.PacketConn
	err := harness.InNetns(world.Ns, func() (err error) { socket, err = net.ListenPacket("udp4", ":80"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	req := program(forge + `
send("203.0.113.9", "10.88.0.1", "another source")
send("0.0.0.0", "10.88.0.2", "another destination")
send("0.0.0.0", "10.88.0.1", "own")`)
	req.Policy.Extras = []string{"raw_socket"}
	req.Network = api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80/udp"}}
	if res := a.Run(req); res.Outcome != api.OutcomeOK {
		t.Fatalf("%s %s: %q", res.Outcome, res.Detail, res.Stderr)
	}
	// They take one way, so that the last to be sent is the last to arrive.
	if err := socket.SetReadDeadline(time.Now().Add(harness.Slow * 10)); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 100)
	n, from, err := socket.ReadFrom(text)
	if err != nil || string(text[:n]) != "own" {
		t.Errorf("%q from %v arrived first (%v)", text[:n], from, err)
	}
}
