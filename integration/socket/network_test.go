package socket

import (
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// echo answers what comes to addr of the world with the same, and counts the connections.
func echo(t *testing.T, w *harness.World, addr string) (accepted *atomic.Int64) {
	t.Helper()
	var l net.Listener
	if err := harness.InNetns(w.Ns, func() (err error) { l, err = net.Listen("tcp", addr); return err }); err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int64)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			t.Cleanup(func() { c.Close() })
			go io.Copy(c, c)
		}
	}()
	return accepted
}

// connecting begins programs that tell how connections go while their rules change.
const connecting = `
import errno, socket, time
def name(call):
    try: call()
    except socket.gaierror: return "NONAME"
    except OSError as e: return errno.errorcode[e.errno]
    return "ok"
def until(addr):
    while True:
        try: s = socket.create_connection((addr, 80), 30)
        except OSError: time.sleep(0.05)
        else: return s
def works(s):
    s.send(b"x")
    return s.recv(1) == b"x"
def said(*words): print(*words, flush=True)
`

// setNetwork replaces the rules of a running job.
func setNetwork(t *testing.T, a *harness.Agent, id string, n api.Network) {
	t.Helper()
	start := time.Now()
	if err := a.Client.SetNetwork(t.Context(), id, n); err != nil {
		t.Fatal(err)
	}
	t.Logf("%v in %v", n, time.Since(start))
}

// printed waits until the job has printed a line.
func printed(t *testing.T, a *harness.Agent, id, line string) {
	t.Helper()
	for deadline := time.Now().Add(20 * harness.Slow); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		out, _, _ := a.CLI("", "logs", id)
		if strings.Contains(out, line+"\n") {
			return
		}
	}
	out, errs, _ := a.CLI("", "logs", id)
	t.Fatalf("the job did not print %q: %s%s", line, out, errs)
}

// TestNetworkOfARunningJob: a job that began without a network gets one, keeps the connection that its next rules allow too
// while they end the other, and loses it with its network. Each refusal names the rules that held at that moment.
func TestNetworkOfARunningJob(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32", "10.88.0.2/32")
	a := harness.Start(t, harness.Options{Netns: node})
	echo(t, world, "10.88.0.1:80")
	echo(t, world, "10.88.0.2:80")
	job, err := a.Client.Start(t.Context(), api.JobRequest{
		ID: "live", Language: "python", Limits: api.Limits{Wall: api.Duration(time.Minute)},
		Code: connecting + `
said("refused", name(lambda: socket.create_connection(("10.88.0.1", 80), 5)))
one, two = until("10.88.0.1"), until("10.88.0.2")
said("both", works(one), works(two))
said("two", name(lambda: two.recv(1)), works(one), name(lambda: socket.create_connection(("10.88.0.2", 80), 5)))
said("one", name(lambda: one.recv(1)), name(lambda: socket.create_connection(("10.88.0.1", 80), 5)))
`})
	if err != nil {
		t.Fatal(err)
	}
	printed(t, a, job.ID, "refused EPERM")
	setNetwork(t, a, job.ID, api.Network{Mode: "allow", Allow: []string{"10.88.0.0/24:80/tcp"}})
	printed(t, a, job.ID, "both True True")
	setNetwork(t, a, job.ID, api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80/tcp"}})
	printed(t, a, job.ID, "two ECONNABORTED True EPERM")
	setNetwork(t, a, job.ID, api.Network{})
	printed(t, a, job.ID, "one ECONNABORTED EPERM")
	done, err := a.Client.Wait(t.Context(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]bool{}
	for _, d := range done.Result.Denials {
		rules[d.Rule+" "+d.What] = true
	}
	for _, want := range []string{"network.none connect 10.88.0.1:80/tcp", "network.default connect 10.88.0.2:80/tcp"} {
		if !rules[want] {
			t.Errorf("no denial %s: %+v", want, done.Result.Denials)
		}
	}
	if u := done.Result.Usage; u.NetTxBytes == 0 || u.NetRxBytes == 0 {
		t.Errorf("traffic was not counted: %+v", u)
	}
	refusedAs(t, a.Client.SetNetwork(t.Context(), job.ID, api.Network{}), 409, "")
}

// TestFlippingRulesOpensNothing: while a job's rules change to and fro a hundred times, an address that none of them allows
// is never reached, and one that all allow always is.
func TestFlippingRulesOpensNothing(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32", "10.88.0.2/32", "10.88.0.3/32")
	a := harness.Start(t, harness.Options{Netns: node})
	denied := echo(t, world, "10.88.0.3:80")
	echo(t, world, "10.88.0.1:80")
	_, err := a.Client.Start(t.Context(), api.JobRequest{
		ID: "flip", Language: "python", Limits: api.Limits{Wall: api.Duration(2 * time.Minute)},
		Network: api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80"}}, Stdin: api.Stdin{Open: true},
		Code: `
import select, socket, sys
kept = socket.create_connection(("10.88.0.1", 80), 30)
print("begun", flush=True)
tries = 0
while not select.select([0], [], [], 0)[0]:
    tries += 1
    try: socket.create_connection(("10.88.0.3", 80), 1)
    except PermissionError: pass
    else: sys.exit("connected")
    kept.send(b"x")
    assert kept.recv(1) == b"x"
print("tried" if tries > 50 else "too few tries", flush=True)
`})
	if err != nil {
		t.Fatal(err)
	}
	printed(t, a, "flip", "begun")
	for i := range 100 {
		n := api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80", "10.88.0.2:80"}}
		if i%2 == 1 {
			n = api.Network{Mode: "open", Deny: []string{"10.88.0.3"}}
		}
		if err := a.Client.SetNetwork(t.Context(), "flip", n); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Client.Stdin(t.Context(), "flip", strings.NewReader("\n"), true); err != nil {
		t.Fatal(err)
	}
	done, err := a.Client.Wait(t.Context(), "flip")
	if err != nil {
		t.Fatal(err)
	}
	if res := done.Result; res.Outcome != api.OutcomeOK || res.Stdout != "begun\ntried\n" {
		t.Errorf("%s %s: %s%s", res.Outcome, res.Detail, res.Stdout, res.Stderr)
	}
	if n := denied.Load(); n != 0 {
		t.Errorf("%d connections reached an address that no rule allows", n)
	}
}

// TestNetworkChangesAreChecked: what cannot be carried out is refused by name and changes nothing.
func TestNetworkChangesAreChecked(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for _, mode := range []string{"syd", "minimal"} {
		if _, err := a.Client.Start(t.Context(), api.JobRequest{ID: mode, Jail: mode, Command: []string{"sleep", "60"}}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * harness.Slow); ; time.Sleep(10 * time.Millisecond) {
			if j, err := a.Client.Get(t.Context(), mode, 0); err != nil || time.Now().After(deadline) {
				t.Fatalf("%s is not running: %+v %v", mode, j, err)
			} else if j.State == api.StateRunning {
				break
			}
		}
	}
	for _, c := range []struct {
		job    string
		n      api.Network
		status int
		field  string
	}{
		{"syd", api.Network{Mode: "some"}, 400, "network.mode"},
		{"syd", api.Network{Mode: "allow", Allow: []string{"10.0.0.1:80", "10.0.0.0/33:80"}}, 400, "network.allow[1]"},
		{"syd", api.Network{Mode: "open", Allow: []string{"10.0.0.1"}}, 400, "network.allow"},
		{"minimal", api.Network{Mode: "none"}, 422, "jail"},
		{"nobody", api.Network{}, 404, ""},
	} {
		refusedAs(t, a.Client.SetNetwork(t.Context(), c.job, c.n), c.status, c.field)
	}
	for _, id := range []string{"syd", "minimal"} {
		if _, err := a.Client.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// refusedAs checks a refusal's status and field.
func refusedAs(t *testing.T, err error, status int, field string) {
	t.Helper()
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != status || p.Field != field || p.Detail == "" {
		t.Errorf("%v, want status %d for the field %q", err, status, field)
	}
}

// TestNetworkBudget: a job's bytes are counted over all its connections and cut in the kernel. Once they are used up its
// connections end, new ones are refused, and a larger budget opens the network again.
func TestNetworkBudget(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32")
	a := harness.Start(t, harness.Options{Netns: node})
	echo(t, world, "10.88.0.1:80")
	const budget = 1 << 20
	rules := api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80"}, Budget: budget}
	_, err := a.Client.Start(t.Context(), api.JobRequest{
		ID: "budget", Language: "python", Network: rules, Limits: api.Limits{Wall: api.Duration(time.Minute)}, Stdin: api.Stdin{Open: true},
		Code: `
import errno, socket, sys
def connect(): return socket.create_connection(("10.88.0.1", 80), 30)
def name(call):
    try: call()
    except OSError as e: return errno.errorcode[e.errno]
    return "ok"
idle, busy, got = connect(), connect(), 0
try:
    while True:
        busy.sendall(bytes(4096))
        n = 0
        while n < 4096: n += len(busy.recv(4096 - n))
        got += n
except OSError as e: print(errno.errorcode[e.errno], got > 300_000, got < 525_000, name(lambda: idle.recv(1)), name(connect), flush=True)
sys.stdin.readline()
print("more", name(connect), flush=True)
`})
	if err != nil {
		t.Fatal(err)
	}
	printed(t, a, "budget", "ECONNABORTED True True ECONNABORTED EPERM")
	rules.Budget *= 2
	if err := a.Client.SetNetwork(t.Context(), "budget", rules); err != nil {
		t.Fatal(err)
	}
	if err := a.Client.Stdin(t.Context(), "budget", strings.NewReader("\n"), true); err != nil {
		t.Fatal(err)
	}
	done, err := a.Client.Wait(t.Context(), "budget")
	if err != nil {
		t.Fatal(err)
	}
	res := done.Result
	if !strings.HasSuffix(res.Stdout, "more ok\n") {
		t.Errorf("%s %s: %s%s", res.Outcome, res.Detail, res.Stdout, res.Stderr)
	}
	if sent := res.Usage.NetTxBytes + res.Usage.NetRxBytes; sent > budget+64<<10 {
		t.Errorf("%d bytes passed, the budget was %d", sent, budget)
	}
	d := find(res, "network.budget")
	if d == nil || d.Layer != "limit" || !strings.Contains(d.What, "1Mi") || !sameJSON(t, string(d.Fix), `{"network":{"budget":"2Mi"}}`) {
		t.Errorf("denials %+v", res.Denials)
	}
}

// TestNetworkRate: what a job sends and receives is held to the rate, in each direction.
func TestNetworkRate(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32")
	a := harness.Start(t, harness.Options{Netns: node})
	echo(t, world, "10.88.0.1:80")
	transfer := `
import socket, threading, time
s = socket.create_connection(("10.88.0.1", 80), 30)
size, start = 1_000_000, time.time()
threading.Thread(target=s.sendall, args=(bytes(size),)).start()
n = 0
while n < size: n += len(s.recv(65536))
print(time.time() - start)
`
	seconds := func(rate api.Quantity) float64 {
		t.Helper()
		res := a.Run(api.JobRequest{
			Language: "python", Code: transfer, Limits: api.Limits{Wall: api.Duration(time.Minute)},
			Network: api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80"}, Rate: rate},
		})
		s, err := strconv.ParseFloat(strings.TrimSpace(res.Stdout), 64)
		if err != nil {
			t.Fatalf("%s %s: %s%s", res.Outcome, res.Detail, res.Stdout, res.Stderr)
		}
		return s
	}
	// A megabyte at 4 Mbit/s takes two seconds, less what may go at once.
	free, held := seconds(0), seconds(4_000_000)
	t.Logf("free %.2f s, held %.2f s", free, held)
	if held < 1.7 {
		t.Errorf("1 MB took %.2f s at 4 Mbit/s", held)
	}
}

// TestFlows: the result tells what went where, and what was refused.
func TestFlows(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32", "10.88.0.2/32")
	a := harness.Start(t, harness.Options{Netns: node})
	echo(t, world, "10.88.0.1:80")
	res := a.Run(api.JobRequest{
		Language: "python", Network: api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80"}},
		Code: `
import socket
s = socket.create_connection(("10.88.0.1", 80), 30)
s.sendall(bytes(10000))
n = 0
while n < 10000: n += len(s.recv(65536))
for addr in ("10.88.0.2", 80), ("10.88.0.1", 81):
    try: socket.create_connection(addr, 5)
    except PermissionError: pass
`})
	flows := map[string]api.Flow{}
	for _, f := range res.Usage.Flows {
		flows[net.JoinHostPort(f.Destination, strconv.Itoa(f.Port))+"/"+f.Protocol] = f
	}
	if len(flows) != 3 || len(res.Usage.Flows) != 3 || res.Usage.FlowsLeftOut != 0 {
		t.Fatalf("%s %s: flows %+v", res.Outcome, res.Stderr, res.Usage)
	}
	for _, where := range []string{"10.88.0.2:80/tcp", "10.88.0.1:81/tcp"} {
		if f := flows[where]; f.Verdict != "refused" || f.Rule != "network.default" || f.Refused != 1 || f.TxPackets != 0 {
			t.Errorf("%s: %+v", where, f)
		}
	}
	f := flows["10.88.0.1:80/tcp"]
	if f.Verdict != "allowed" || f.Rule != "" || f.TxBytes < 10000 || f.RxBytes < 10000 || f.TxPackets == 0 || f.RxPackets == 0 || f.Refused != 0 {
		t.Errorf("%+v", f)
	}
	if u := res.Usage; u.NetTxBytes != f.TxBytes || u.NetRxBytes != f.RxBytes {
		t.Errorf("the flow carried %d and %d bytes of %d and %d", f.TxBytes, f.RxBytes, u.NetTxBytes, u.NetRxBytes)
	}
	// More far ends than there are places: the rest is counted.
	res = a.Python(`
import socket
for port in range(1, 200):
    try: socket.create_connection(("10.88.0.1", port), 5)
    except PermissionError: pass
`)
	refused := res.Usage.FlowsLeftOut
	for _, f := range res.Usage.Flows {
		refused += f.Refused
	}
	if refused != 199 || len(res.Usage.Flows) > 64 || len(res.Usage.Flows) < 32 {
		t.Errorf("%d flows and %d left out account for %d of 199 refusals", len(res.Usage.Flows), res.Usage.FlowsLeftOut, refused)
	}
}

// TestNetworkCeiling: no request gets beyond what the operator permits, when it is posted or later, and no fix says it could.
func TestNetworkCeiling(t *testing.T) {
	node, world := harness.NewWorld(t, "10.88.0.1/32", "10.88.1.1/32")
	a := harness.Start(t, harness.Options{Netns: node, Args: []string{"--network-permit", "10.88.0.0/24:80/tcp,*.files.example.com:443"}})
	echo(t, world, "10.88.0.1:80")
	beyond := echo(t, world, "10.88.1.1:80")
	for _, n := range []api.Network{
		{Mode: "open"}, {Mode: "allow", Allow: []string{"10.88.1.1:80/tcp"}}, {Mode: "allow", Allow: []string{"10.88.0.0/16:80/tcp"}},
		{Mode: "allow", Allow: []string{"10.88.0.1:80"}}, {Mode: "allow", Allow: []string{"files.example.com:443"}},
	} {
		_, err := a.Client.Run(t.Context(), api.JobRequest{Command: []string{"true"}, Network: n})
		field := "network.allow[0]"
		if n.Mode == "open" {
			field = "network.mode"
		}
		refusedAs(t, err, 403, field)
	}
	res := a.Run(api.JobRequest{
		Language: "python", Network: api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80/tcp", "a.files.example.com:443"}},
		Code: `
import socket
socket.create_connection(("10.88.0.1", 80), 30)
try: socket.create_connection(("10.88.1.1", 80), 5)
except PermissionError: print("refused")
`})
	if res.Stdout != "refused\n" || beyond.Load() != 0 {
		t.Errorf("%s %s: %s%s", res.Outcome, res.Detail, res.Stdout, res.Stderr)
	}
	if d := find(res, "network.default"); d == nil || string(d.Fix) != "null" || !strings.Contains(d.Why, "network.permit") {
		t.Errorf("denials %+v", res.Denials)
	}
	info, err := a.Client.Node(t.Context())
	if err != nil || len(info.Network.Permit) != 2 || slices.Contains(info.Network.Modes, "open") {
		t.Errorf("GET /v1/node: %+v %v", info, err)
	}
}
