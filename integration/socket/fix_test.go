package socket

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// attempt is a program that exits with 0 once nothing that it needs is refused.
type attempt struct {
	name  string
	rules []string // of the denials that have a fix, in any order
	req   api.JobRequest
}

// libc is the head of programs that make calls which Python has no name for.
const libc = `
import ctypes, os, signal, sys
c = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    r = getattr(c, name)(*args)
    if r < 0: sys.exit("%s: errno %d" % (name, ctypes.get_errno()))
    return r
`

// TestEveryFixWorks: what a denial offers as its fix is merged into the request as a JSON merge patch, and then the program
// gets what it was refused. The programs are one for each kind of fix that there is.
func TestEveryFixWorks(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32", "203.0.113.10/32", nameServer+"/32")
	world.ServeNames(nameServer, "api.test. 60 IN A 203.0.113.10", "lan.test. 60 IN A 10.88.0.1")
	a := harness.Start(t, harness.Options{Netns: node, Args: []string{"--extras", "ptrace,io_uring,raw_socket,userns", "--network-dns-upstreams", nameServer}})
	world.Serve("10.88.0.1:80", "hello\n")
	world.Serve("203.0.113.10:443", "hello\n")
	second := api.Duration(harness.Slow)
	list := []attempt{
		{"ptrace", []string{"syscall.ptrace"}, program(libc + "call('ptrace', 0, 0, 0, 0)")},
		{"another process's memory", []string{"syscall.process_vm_readv"}, program(libc + `
text = ctypes.create_string_buffer(b"x")
vec = (ctypes.c_void_p * 2)(ctypes.addressof(text), 1)
call('process_vm_readv', os.getpid(), vec, 1, vec, 1, 0)`)},
		{"no randomisation", []string{"syscall.personality"}, program(libc + "call('personality', 0x0040000)")},
		{"raw socket", []string{"syscall.socket_raw"}, program(`
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.settimeout(5)
s.sendto(struct.pack("!BBHHH", 8, 0, 0xf7ff, 0, 0), ("127.0.0.1", 0))
assert s.recv(100)[20] in (0, 8)`)},
		{"user namespace", []string{"syscall.unshare"}, program(libc + `
uid, gid = os.getuid(), os.getgid()
call('unshare', 0x10000000 | 0x00020000)
for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
    open("/proc/self/" + name, "w").write(text)
os.mkdir("m")
call('mount', b"none", b"m", b"tmpfs", 0, None)
open("m/x", "w").write("x")`)},
		{"clone into a namespace", []string{"syscall.namespace"}, program(libc + `
import platform
nr = {"x86_64": 56, "aarch64": 220}[platform.machine()]
pid = call('syscall', nr, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0: os._exit(0)
sys.exit(os.waitpid(pid, 0)[1])`)},
		{"no network", []string{"network.none"}, program("import socket\nsocket.create_connection(('10.88.0.1', 80), 5).recv(9)")},
		{"another address", []string{"network.default"}, func() api.JobRequest {
			r := program("import socket\nsocket.create_connection(('10.88.0.1', 80), 5).recv(9)")
			r.Network = api.Network{Mode: "allow", Allow: []string{"10.88.0.9:80"}}
			return r
		}()},
		{"a name without a network", []string{"network.none"}, program("import socket\nsocket.create_connection(('api.test', 443), 5).recv(9)")},
		{"a name", []string{"network.dns"}, named("api.test", 443, api.Network{Mode: "allow", Allow: []string{"10.88.0.9:80"}})},
		{"another port of a name", []string{"network.default"}, named("api.test", 443, api.Network{Mode: "allow", Allow: []string{"*.test:80", "api.test:80"}})},
		{"a denied name", []string{"network.deny"}, named("api.test", 443, api.Network{Mode: "allow", Allow: []string{"*.test:443"}, Deny: []string{"api.test"}})},
		{"a name with an internal address", []string{"network.rebinding"}, named("lan.test", 80, api.Network{Mode: "allow", Allow: []string{"lan.test:80/tcp"}})},
		{"a fix beside extras and rules", []string{"syscall.ptrace"}, func() api.JobRequest {
			r := program(libc + "call('ptrace', 0, 0, 0, 0)\ncall('personality', 0x0040000)\nimport socket\nsocket.create_connection(('10.88.0.1', 80), 5).recv(9)")
			r.Network = api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80"}}
			r.Policy = api.Policy{Extras: []string{"userns"}, Deny: []string{"syscall.kcmp"}}
			return r
		}()},
		{"wall", []string{"limit.wall"}, limited("import time\ntime.sleep("+strconv.FormatFloat((harness.Slow*3/2).Seconds(), 'f', 1, 64)+")", api.Limits{Wall: second})},
		{"cpu", []string{"limit.cpu"}, limited("import time\nwhile time.process_time() < 1.5: pass", api.Limits{CPU: api.Duration(time.Second)})},
		{"memory", []string{"limit.memory"}, limited("x = bytearray(100 << 20)\nx[::4096] = bytes(len(x[::4096]))", api.Limits{Memory: 100 << 20})},
		{"pids", []string{"limit.pids"}, limited(`
import os, time
for i in range(30):
    if os.fork() == 0: time.sleep(1); os._exit(0)
for i in range(30): os.wait()`, api.Limits{Pids: 20})},
		{"output", []string{"limit.output"}, limited("print('x' * (96 << 10))", api.Limits{Output: 64 << 10})},
		{"disk", []string{"limit.disk"}, limited("f = open('big', 'wb')\nfor i in range(30): f.write(bytes(1 << 20)); f.flush()", api.Limits{Disk: 20 << 20})},
		{"inodes", []string{"limit.inodes"}, limited("for i in range(150): open(str(i), 'w')\nimport time; time.sleep(.5)", api.Limits{Inodes: 100})},
		{"open files", []string{"limit.open_files"}, limited("list = [open('/dev/null') for i in range(150)]", api.Limits{OpenFiles: 100})},
		{"shared memory", []string{"limit.shm"}, copied("/dev/shm/x", "0", "24", api.Limits{Shm: 16 << 20})},
		{"temporary files", []string{"limit.memory"}, copied("/tmp/x", "0", "40", api.Limits{Memory: 64 << 20})},
		{"one file", []string{"signal.sigxfsz"}, copied("big", "30", "1", api.Limits{Disk: 20 << 20})},
	}
	if usesRing() {
		list = append(list, attempt{"io_uring", []string{"syscall.io_uring_setup"}, program(libc + "call('syscall', 425, 8, ctypes.create_string_buffer(120))")})
	}
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			res := a.Run(c.req)
			if res.Outcome == api.OutcomeOK {
				t.Fatalf("nothing was refused: %+v", res.Denials)
			}
			var rules []string
			request := mustMap(t, c.req)
			for _, d := range res.Denials {
				if string(d.Fix) == "null" {
					continue
				}
				rules = append(rules, d.Rule)
				var patch map[string]any
				if err := json.Unmarshal(d.Fix, &patch); err != nil {
					t.Fatalf("%s: fix %s: %v", d.Rule, d.Fix, err)
				}
				merge(request, patch)
			}
			slices.Sort(rules)
			if !slices.Equal(rules, c.rules) {
				t.Fatalf("fixes for %v, want %v: %s %q %+v", rules, c.rules, res.Outcome, res.Stderr, res.Denials)
			}
			var fixed api.JobRequest
			text, _ := json.Marshal(request)
			if err := json.Unmarshal(text, &fixed); err != nil {
				t.Fatal(err)
			}
			if res = a.Run(fixed); res.Outcome != api.OutcomeOK {
				t.Errorf("with %s: %s %s: %q %+v", text, res.Outcome, res.Detail, res.Stderr, res.Denials)
			}
			slices.Sort(fixed.Policy.Extras)
			if !slices.Equal(res.Isolation.Extras, fixed.Policy.Extras) && len(res.Isolation.Extras)+len(fixed.Policy.Extras) > 0 {
				t.Errorf("the result names the extras %v, of %v", res.Isolation.Extras, fixed.Policy.Extras)
			}
		})
	}
}

// TestNoFixWithoutPermission: what the node does not permit is no fix, and is named for the operator.
func TestNoFixWithoutPermission(t *testing.T) {
	a := harness.Start(t, harness.Options{Args: []string{"--extras", "io_uring"}})
	res := a.Run(program(libc + "call('ptrace', 0, 0, 0, 0)"))
	d := find(res, "syscall.ptrace")
	if d == nil || string(d.Fix) != "null" || !strings.Contains(d.Why, `"ptrace"`) || !strings.Contains(d.Why, "operator") {
		t.Errorf("%+v", res.Denials)
	}
}

// TestDenied: what a request takes away is refused by its name, and the rest works.
func TestDenied(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for _, c := range []struct{ deny, src, rule string }{
		{"processes", "import os, threading\nt = threading.Thread(target=print); t.start(); t.join()\nos.fork()", "policy.processes"},
		{"sockets", "import socket\nsocket.socketpair(); socket.socket(socket.AF_UNIX)\nsocket.socket()", "policy.sockets"},
		{"syscall.umask", "import os\nos.getpid()\nos.umask(0)", "policy.syscall.umask"},
	} {
		req := program(c.src)
		req.Policy.Deny = []string{c.deny}
		res := a.Run(req)
		if res.Outcome == api.OutcomeOK || !strings.Contains(res.Stderr, "Operation not permitted") && c.deny != "syscall.umask" {
			t.Errorf("%s: %s %q", c.deny, res.Outcome, res.Stderr)
		}
		if d := find(res, c.rule); d == nil || string(d.Fix) != "null" || !strings.Contains(d.Why, "policy.deny: "+c.deny) {
			t.Errorf("%s: %+v", c.deny, res.Denials)
		}
	}
}

// usesRing tells whether this kernel has io_uring, for this process at least.
func usesRing() bool {
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&params)), 0)
	if errno == 0 {
		unix.Close(int(fd))
	}
	return errno == 0
}

func program(src string) api.JobRequest { return api.JobRequest{Language: "python", Code: src} }

func named(host string, port int, n api.Network) api.JobRequest {
	r := program(fmt.Sprintf("import socket\nsocket.create_connection((%q, %d), 5).recv(9)", host, port))
	r.Network = n
	return r
}

// copied is dd of so many megabytes of zeros, after so many that are left out.
func copied(to, seek, count string, l api.Limits) api.JobRequest {
	return api.JobRequest{Command: []string{"dd", "if=/dev/zero", "of=" + to, "bs=1M", "seek=" + seek, "count=" + count}, Limits: l}
}

func limited(src string, l api.Limits) api.JobRequest {
	r := program(src)
	r.Limits = l
	return r
}

func mustMap(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// merge applies a JSON merge patch (RFC 7396).
func merge(into, patch map[string]any) {
	for name, v := range patch {
		inner, isObject := v.(map[string]any)
		switch {
		case v == nil:
			delete(into, name)
		case isObject:
			old, ok := into[name].(map[string]any)
			if !ok {
				old = map[string]any{}
				into[name] = old
			}
			merge(old, inner)
		default:
			into[name] = v
		}
	}
}
