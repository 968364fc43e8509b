package socket

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestDenialsNameRuleAndFix: one job that calls ptrace, opens a raw socket, and connects to the metadata service and to an
// address that is not allowed finds each of them named.
func TestDenialsNameRuleAndFix(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32", "169.254.169.254/32")
	a := harness.Start(t, harness.Options{Netns: node})
	denied, metadata := world.Serve("10.88.0.1:80", "hello\n"), world.Serve("169.254.169.254:80", "secret\n")
	res := a.Run(api.JobRequest{
		Language: "python",
		Network:  api.Network{Mode: "allow", Allow: []string{"10.88.0.9:80"}},
		Code: `
import ctypes, socket, time
libc = ctypes.CDLL(None, use_errno=True)
print("ptrace", libc.ptrace(0, 0, 0, 0), ctypes.get_errno())
try: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
except OSError as e: print("raw", e.errno)
for addr in ("169.254.169.254", "10.88.0.1"):
    t = time.time()
    s = socket.socket(); s.settimeout(5)
    try: s.connect((addr, 80)); print("connected", addr)
    except OSError as e: print(addr, e.errno, "fast" if time.time() - t < 0.1 * ` + strconv.Itoa(int(harness.Slow/time.Second)) + ` else "slow %f" % (time.time()-t))
`})
	if denied() != 0 || metadata() != 0 {
		t.Errorf("the forbidden sides accepted %d and %d connections", denied(), metadata())
	}
	want := "ptrace -1 1\nraw 1\n169.254.169.254 1 fast\n10.88.0.1 1 fast\n"
	if res.Outcome != api.OutcomeOK || res.Stdout != want {
		t.Errorf("%s %s\n%s%s\nwant %s", res.Outcome, res.Detail, res.Stdout, res.Stderr, want)
	}
	for _, c := range []struct{ rule, what, fix string }{
		{"syscall.ptrace", "ptrace(PTRACE_TRACEME", ""},
		{"syscall.socket_raw", "SOCK_RAW", ""},
		{"network.metadata", "connect 169.254.169.254:80/tcp", ""},
		{"network.default", "connect 10.88.0.1:80/tcp", `{"network":{"mode":"allow","allow":["10.88.0.9:80","10.88.0.1:80/tcp"]}}`},
	} {
		d := find(res, c.rule)
		if d == nil {
			t.Errorf("no denial for %s: %+v", c.rule, res.Denials)
			continue
		}
		if !strings.Contains(d.What, c.what) || d.Errno != "EPERM" || d.Program != "python3" || d.PID <= 1 || d.Why == "" || d.Count < 1 {
			t.Errorf("%s: %+v", c.rule, *d)
		}
		if c.fix == "" && string(d.Fix) != "null" {
			t.Errorf("%s: fix %s, want null", c.rule, d.Fix)
		}
		if c.fix != "" && !sameJSON(t, string(d.Fix), c.fix) {
			t.Errorf("%s: fix %s, want %s", c.rule, d.Fix, c.fix)
		}
	}
}

// TestNetworkFixWorks: with the fix applied the connection is made, and a job without network is told how to get one.
func TestNetworkFixWorks(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32")
	a := harness.Start(t, harness.Options{Netns: node})
	world.Serve("10.88.0.1:80", "hello\n")
	req := api.JobRequest{Language: "python", Code: "import socket\nprint(socket.create_connection(('10.88.0.1',80),3).recv(99).decode())"}
	res := a.Run(req)
	d := find(res, "network.none")
	if d == nil {
		t.Fatalf("no denial network.none: %+v %s", res.Denials, res.Stderr)
	}
	if err := json.Unmarshal(d.Fix, &req); err != nil {
		t.Fatal(err)
	}
	if res = a.Run(req); res.Stdout != "hello\n\n" {
		t.Errorf("with the fix %s: %s %q %s %+v", d.Fix, res.Outcome, res.Stdout, res.Stderr, res.Denials)
	}
}

func find(res *api.Result, rule string) *api.Denial {
	for i := range res.Denials {
		if res.Denials[i].Rule == rule {
			return &res.Denials[i]
		}
	}
	return nil
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	xs, _ := json.Marshal(x)
	ys, _ := json.Marshal(y)
	return string(xs) == string(ys)
}
