package hostile

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// addressRace flips a socket address between an allowed and a denied one while connect, sendto and sendmsg read it.
const addressRace = `
import socket
def address(host): return struct.pack("=H", 2) + struct.pack(">H", 80) + socket.inet_aton(host) + bytes(8)
good, bad = address("10.88.0.1"), address("10.88.0.2")
buf = ctypes.create_string_buffer(16)
stop = False
def flip():
    while not stop:
        ctypes.memmove(buf, good, 16)
        ctypes.memmove(buf, bad, 16)
t = threading.Thread(target=flip)
t.start()
got = {}
def count(name, r, e):
    key = name + " " + (e or "ok")
    got[key] = got.get(key, 0) + 1
data = ctypes.create_string_buffer(b"x", 1)
iov = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), 1), 16)
msg = ctypes.create_string_buffer(struct.pack("QIxxxxQQQQixxxx", ctypes.addressof(buf), 16, ctypes.addressof(iov), 1, 0, 0, 0), 56)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
again = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(400):
    s = socket.socket()
    s.setblocking(False)
    count("connect", *sc(nr(42, 203), s.fileno(), buf, 16))
    s.close()
    for _ in range(4):
        count("sendto", *sc(nr(44, 206), udp.fileno(), data, 1, 0, buf, 16))
        count("sendmsg", *sc(nr(46, 211), udp.fileno(), msg, 0))
        count("udp-connect", *sc(nr(42, 203), again.fileno(), buf, 16))
        count("send", *sc(nr(44, 206), again.fileno(), data, 1, 0, 0, 0))
stop = True
t.join()
report("race", any(k.endswith("EPERM") for k in got), got)
`

// TestAddressRace is A2: what the network layer lets out is what it saw itself, whatever the memory held when the call began.
// Minimal refuses such a policy, since it has no network of its own.
func TestAddressRace(t *testing.T) {
	prelude, err := programs.ReadFile("prelude.py")
	if err != nil {
		t.Fatal(err)
	}
	node, world := harness.NewWorld(t, "10.88.0.1/32", "10.88.0.2/32")
	a := harness.Start(t, harness.Options{Netns: node})
	world.Serve("10.88.0.1:80", "")
	connections, datagrams := world.Serve("10.88.0.2:80", ""), countDatagrams(t, world, "10.88.0.2:80")
	allowed := countDatagrams(t, world, "10.88.0.1:80")
	res := a.Run(api.JobRequest{
		Network:  api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80", "10.88.0.1:80/udp"}},
		Language: "python", Code: string(prelude) + addressRace,
	})
	if res.Outcome != api.OutcomeOK || !strings.HasPrefix(res.Stdout, "held race") {
		t.Errorf("%s\n%s%s", res.Outcome, res.Stdout, res.Stderr)
	}
	if c, d := connections(), datagrams.Load(); c != 0 || d != 0 {
		t.Errorf("the denied address got %d connections and %d datagrams", c, d)
	}
	if allowed.Load() == 0 {
		t.Errorf("the allowed address got no datagram: nothing raced\n%s", res.Stdout)
	}
	if !named(res, "network.default") {
		t.Errorf("no denial names network.default: %+v", res.Denials)
	}
}

func countDatagrams(t *testing.T, w *harness.World, addr string) *atomic.Int64 {
	t.Helper()
	var c net.PacketConn
	if err := harness.InNetns(w.Ns, func() (err error) { c, err = net.ListenPacket("udp", addr); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var n atomic.Int64
	go func() {
		for b := make([]byte, 16); ; n.Add(1) {
			if _, _, err := c.ReadFrom(b); err != nil {
				return
			}
		}
	}()
	return &n
}

// TestCredentials is F10 and F2: no job gets to the node's credentials or to the agent, under any network policy.
func TestCredentials(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	for _, jail := range []string{"syd", "minimal"} {
		for _, mode := range []string{"none", "open"} {
			t.Run(jail+"-"+mode, func(t *testing.T) {
				node, world := harness.NewWorld(t, "10.88.0.1/32", "169.254.169.254/32", "fd00:ec2::254/128")
				a := harness.Start(t, harness.Options{
					Netns: node, Args: []string{"--listen", "0.0.0.0:8000"},
					Env: map[string]string{"SIDECAR_AUTH_TOKEN": token, "AWS_WEB_IDENTITY_TOKEN_FILE": "/run/planted"},
				})
				v4, v6 := world.Serve("169.254.169.254:80", token), world.Serve("[fd00:ec2::254]:80", token)
				res := a.Run(api.JobRequest{
					Jail: jail, Network: api.Network{Mode: mode}, Language: "python",
					Code: fmt.Sprintf(`import os, socket
for host in ("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254"):
    try: print("ESCAPED", host, socket.create_connection((host, 80), 1).recv(99))
    except OSError as e: print("held", host, e.errno)
gateways = [socket.inet_ntoa(bytes.fromhex(l.split()[2])[::-1]) for l in open("/proc/net/route") if l.split()[1] == "00000000"]
for host in ["127.0.0.1", "0.0.0.0", "::1", "10.87.0.1", "fd87::1", "localhost", *gateways]:
    for port in (8000, 10250, 10255):
        try: socket.create_connection((host, port), 1); print("ESCAPED", host, port)
        except OSError as e: print("held", host, port, e.errno)
for path in ("/run/planted", "/run/secrets", "/var/run/secrets/kubernetes.io/serviceaccount/token", "/var/run/secrets/eks.amazonaws.com", "/root/.aws", "/root/.config", "/root/.docker/config.json", "/run/tolbooth/tolbooth.sock", %q):
    print("ESCAPED" if os.path.exists(path) else "held", path)
print([n for n in os.environ if n.startswith(("AWS", "GOOGLE", "AZURE", "KUBERNETES", "SIDECAR"))])`, a.Socket),
				})
				if res.Outcome != api.OutcomeOK || strings.Contains(res.Stdout, "ESCAPED") || !strings.HasSuffix(res.Stdout, "[]\n") || strings.Count(res.Stdout, "held") < 30 {
					t.Errorf("%s\n%s%s", res.Outcome, res.Stdout, res.Stderr)
				}
				if v4() != 0 || v6() != 0 {
					t.Errorf("the metadata service was reached %d and %d times", v4(), v6())
				}
				if mode == "open" && !named(res, "network.metadata") {
					t.Errorf("no denial names network.metadata: %+v", res.Denials)
				}
			})
		}
	}
}
