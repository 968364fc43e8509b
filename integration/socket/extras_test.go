package socket

import (
	"runtime"
	"strings"
	"testing"

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
