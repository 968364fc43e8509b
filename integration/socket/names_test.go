package socket

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

const nameServer = "203.0.113.53"

// atOnce is less than any resolver waits before it asks again, and more than a busy machine takes for one that need not wait.
var atOnce = 4 * harness.Slow

// nameWorld is a node whose resolver is an authoritative server of the test.
func nameWorld(t *testing.T, records []string, args ...string) (*harness.Agent, *harness.World, *harness.Names) {
	t.Helper()
	node, world := harness.NewWorld(t, "203.0.113.10/32", "203.0.113.11/32", nameServer+"/32", "2001:db8:88::10/128")
	names := world.ServeNames(nameServer, records...)
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver "+nameServer+"\nsearch corp.test\noptions ndots:2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return harness.Start(t, harness.Options{Netns: node, Args: append([]string{"--network-resolv-conf", conf}, args...)}), world, names
}

// visit is the head of programs that say how a connection to each of some hosts went, and how long it took.
const visit = `
import errno, json, socket, sys, time
def visit(host, port=443):
    start = time.monotonic()
    try:
        with socket.create_connection((host, port), 10) as s: word = s.recv(100).decode().strip()
    except socket.gaierror as e: word = {socket.EAI_NONAME: "NONAME", socket.EAI_AGAIN: "AGAIN"}.get(e.errno, str(e))
    except OSError as e: word = errno.errorcode.get(e.errno, str(e))
    return word, time.monotonic() - start
`

type visited struct {
	word    string
	seconds float64
}

func (v *visited) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&v.word, &v.seconds})
}

// visits runs visit for each host ("name" or "name:port").
func visits(t *testing.T, a *harness.Agent, n api.Network, hosts ...string) ([]visited, *api.Result) {
	t.Helper()
	list, err := json.Marshal(hosts)
	if err != nil {
		t.Fatal(err)
	}
	r := program(visit + `
out = []
for h in json.loads(sys.argv[1] if len(sys.argv) > 1 else '` + string(list) + `'):
    name, _, port = h.partition(":")
    out.append(visit(name, int(port or 443)))
print(json.dumps(out))`)
	r.Network = n
	res := a.Run(r)
	var out []visited
	if err := json.Unmarshal([]byte(res.Stdout), &out); err != nil {
		t.Fatalf("%s %s: %q %q", res.Outcome, res.Detail, res.Stdout, res.Stderr)
	}
	return out, res
}

func denial(res *api.Result, rule, what string) *api.Denial {
	i := slices.IndexFunc(res.Denials, func(d api.Denial) bool { return d.Rule == rule && d.What == what })
	if i < 0 {
		return nil
	}
	return &res.Denials[i]
}

// TestNamesOfAJob: a job reaches by name what its rules name and nothing else; a name that they do not allow never reaches a
// name server, and its refusal names it.
func TestNamesOfAJob(t *testing.T) {
	records := []string{
		"api.test. 60 IN CNAME edge.cdn.test.", "edge.cdn.test. 60 IN A 203.0.113.10",
		"six.test. 60 IN AAAA 2001:db8:88::10", "db.corp.test. 60 IN A 203.0.113.10",
		"a.b.wild.test. 60 IN A 203.0.113.10", "wild.test. 60 IN A 203.0.113.11",
		"bad.wild.test. 60 IN A 203.0.113.10", "other.test. 60 IN A 203.0.113.11",
		"meta.wild.test. 0 IN A 169.254.169.254", "lan.wild.test. 0 IN A 10.0.0.1", "evil.test. 60 IN A 203.0.113.11",
	}
	for i := range 40 {
		records = append(records, fmt.Sprintf("forty.test. 60 IN A 203.0.113.%d", 100+i))
	}
	records = append(records, "long.test. 60 IN A 203.0.113.10")
	for i := range 150 {
		records = append(records, fmt.Sprintf("long.test. 60 IN AAAA 2001:db8:99::%x", i+1))
	}
	a, world, names := nameWorld(t, records)
	for _, addr := range []string{"203.0.113.10:443", "[2001:db8:88::10]:443"} {
		world.Serve(addr, "hello\n")
	}
	forbidden := world.Serve("203.0.113.11:443", "hello\n")
	network := api.Network{
		Mode:  "allow",
		Allow: []string{"api.test:443/tcp", "six.test:443", "db.corp.test:443", "*.wild.test:443", "forty.test:443", "long.test:443"},
		Deny:  []string{"bad.wild.test"},
	}
	got, res := visits(t, a, network, "api.test", "six.test", "db", "a.b.wild.test", "evil.test", "wild.test", "bad.wild.test",
		"edge.cdn.test", "meta.wild.test", "lan.wild.test", "api.test:80", "203.0.113.11")
	want := []string{"hello", "hello", "hello", "hello", "NONAME", "NONAME", "NONAME", "NONAME", "NONAME", "NONAME", "EPERM", "EPERM"}
	for i, w := range want {
		if got[i].word != w {
			t.Errorf("visit %d: %s, want %s", i, got[i].word, w)
		}
		if w != "hello" && got[i].seconds > atOnce.Seconds() {
			t.Errorf("visit %d was refused after %.3f s", i, got[i].seconds)
		}
		t.Logf("%d %s %.1f ms", i, got[i].word, got[i].seconds*1000)
	}
	for _, d := range []struct{ rule, what, fix string }{
		{"network.dns", "resolve evil.test (A)", `"evil.test:443"`},
		{"network.dns", "resolve wild.test (A)", `"wild.test:443"`},
		{"network.deny", "resolve bad.wild.test (A)", `"deny":[]`},
		{"network.dns", "resolve edge.cdn.test (A)", `"edge.cdn.test:443"`},
		{"network.rebinding", "resolve meta.wild.test (A)", "null"},
		{"network.rebinding", "resolve lan.wild.test (A)", `"10.0.0.1:443"`},
		{"network.default", "connect 203.0.113.10:80/tcp", `"a.b.wild.test:80/tcp"`},
		{"network.default", "connect 203.0.113.11:443/tcp", `"203.0.113.11:443/tcp"`},
	} {
		found := denial(res, d.rule, d.what)
		if found == nil || !strings.Contains(string(found.Fix), d.fix) || found.Why == "" {
			t.Errorf("no denial by %s of %q with a fix %s: %+v", d.rule, d.what, d.fix, found)
		}
	}
	if len(res.Denials) != 8 {
		t.Errorf("%d denials, want 8: %+v", len(res.Denials), res.Denials)
	}
	for _, asked := range names.Asked() {
		for _, never := range []string{"evil.test", "bad.wild.test", "cdn.test", "corp.test.corp.test"} {
			if strings.Contains(asked, never) || asked == "wild.test A" {
				t.Errorf("the name server was asked for %s", asked)
			}
		}
	}
	if forbidden() != 0 {
		t.Error("a connection came to an address that was not allowed")
	}

	r := program(`
import socket
print(len({a[4][0] for a in socket.getaddrinfo("forty.test", 443, socket.AF_INET)}), len({a[4][0] for a in socket.getaddrinfo("long.test", 443, socket.AF_INET6)}))
print(open("/etc/resolv.conf").read())`)
	r.Network = network
	res = a.Run(r)
	if res.Stdout != "40 150\nnameserver 127.0.0.1\nsearch corp.test\noptions edns0 ndots:2\n\n" {
		t.Errorf("%q %q", res.Stdout, res.Stderr)
	}
}

// TestNamesWithoutANetwork: the names that a job without a network wanted are in its result, and leave nowhere.
func TestNamesWithoutANetwork(t *testing.T) {
	a, _, names := nameWorld(t, []string{"evil.test. 60 IN A 203.0.113.10"})
	got, res := visits(t, a, api.Network{}, "secret123.evil.test")
	if got[0].word != "NONAME" || got[0].seconds > atOnce.Seconds() {
		t.Errorf("%+v", got)
	}
	d := denial(res, "network.none", "resolve secret123.evil.test (A)")
	if d == nil || string(d.Fix) != `{"network":{"allow":["secret123.evil.test:443"],"mode":"allow"}}` || len(res.Denials) != 1 {
		t.Errorf("%+v", res.Denials)
	}
	if asked := names.Asked(); len(asked) != 0 {
		t.Errorf("the name server was asked for %q", asked)
	}
	if sh := a.Sh("true"); sh.Outcome != api.OutcomeOK || len(sh.Denials) != 0 {
		t.Errorf("%+v", sh)
	}
}

// TestNamesUnderBudget: what a job makes up below a wildcard is bounded.
func TestNamesUnderBudget(t *testing.T) {
	a, _, names := nameWorld(t, nil, "--network-dns-names", "5", "--network-dns-queries", "8")
	r := program(`
import socket
for i in range(20):
    try: socket.getaddrinfo("data%d.evil.test" % i, 443, socket.AF_INET)
    except socket.gaierror: pass`)
	r.Network = api.Network{Mode: "allow", Allow: []string{"*.evil.test:443"}}
	res := a.Run(r)
	sent := map[string]bool{}
	for _, asked := range names.Asked() {
		sent[asked] = true
	}
	if len(sent) != 5 {
		t.Errorf("%d names were sent: %v", len(sent), sent)
	}
	count := int64(0)
	for _, d := range res.Denials {
		if d.Rule == "network.dns_names" && strings.Contains(d.Why, "(5)") && string(d.Fix) == "null" {
			count += d.Count
		}
	}
	if count < 15 {
		t.Errorf("%d refusals by the budget: %+v", count, res.Denials)
	}
}

// TestNamesOfARunningJob: names that new rules allow work at once, connections to those that they forbid end.
func TestNamesOfARunningJob(t *testing.T) {
	a, world, _ := nameWorld(t, []string{"one.test. 60 IN A 203.0.113.10", "two.test. 60 IN A 203.0.113.11"})
	echo(t, world, "203.0.113.10:80")
	echo(t, world, "203.0.113.11:80")
	job, err := a.Client.Start(t.Context(), api.JobRequest{
		ID: "named", Language: "python", Limits: api.Limits{Wall: api.Duration(time.Minute)},
		Code: connecting + `
said("refused", name(lambda: socket.create_connection(("one.test", 80), 5)))
one, two = until("one.test"), until("two.test")
said("both", works(one), works(two))
said("two", name(lambda: two.recv(1)), works(one), name(lambda: socket.create_connection(("two.test", 80), 5)), name(lambda: socket.create_connection(("203.0.113.11", 80), 5)))
said("one", name(lambda: one.recv(1)), name(lambda: socket.create_connection(("one.test", 80), 5)))
`})
	if err != nil {
		t.Fatal(err)
	}
	printed(t, a, job.ID, "refused NONAME")
	setNetwork(t, a, job.ID, api.Network{Mode: "allow", Allow: []string{"*.test:80/tcp"}})
	printed(t, a, job.ID, "both True True")
	setNetwork(t, a, job.ID, api.Network{Mode: "allow", Allow: []string{"one.test:80"}})
	printed(t, a, job.ID, "two ECONNABORTED True NONAME EPERM")
	setNetwork(t, a, job.ID, api.Network{})
	printed(t, a, job.ID, "one ECONNABORTED NONAME")
	if _, err := a.Client.Wait(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
}

// TestNamesThatExpire is P40: an address that a program kept for longer than the answer holds is refused, and the refusal says so.
// Meanwhile a connection that is in use outlives the answer. With TOLBOOTH_LONG=1: it takes half a minute of waiting.
func TestNamesThatExpire(t *testing.T) {
	hosttest.Need(t, "TOLBOOTH_LONG", os.Getenv("TOLBOOTH_LONG") != "", "waits for an answer to expire")
	a, world, _ := nameWorld(t, []string{"idle.test. 1 IN A 203.0.113.10", "used.test. 1 IN A 203.0.113.11"})
	world.Serve("203.0.113.10:80", "hello\n")
	echo(t, world, "203.0.113.11:80")
	r := program(`
import socket, time
idle = socket.getaddrinfo("idle.test", 80, socket.AF_INET)[0][4]
used = socket.create_connection(("used.test", 80), 5)
time.sleep(33)
used.send(b"x")
print(used.recv(1))
try: socket.create_connection(idle, 5)
except PermissionError: print("refused")
print(socket.create_connection(("idle.test", 80), 5).recv(5))`)
	r.Network = api.Network{Mode: "allow", Allow: []string{"*.test:80"}}
	r.Limits.Wall = api.Duration(2 * time.Minute)
	res := a.Run(r)
	d := denial(res, "network.dns_entry_expired", "connect 203.0.113.10:80/tcp")
	if res.Stdout != "b'x'\nrefused\nb'hello'\n" || d == nil || !strings.Contains(d.Why, "idle.test") || len(res.Denials) != 1 {
		t.Errorf("%q %q %+v", res.Stdout, res.Stderr, res.Denials)
	}
}
