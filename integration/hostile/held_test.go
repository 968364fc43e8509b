package hostile

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestOddOutput is E5 and F6: bytes of any kind come through whole, and what looks like the agent's own records is output.
func TestOddOutput(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	res := a.Python(`import os
os.write(1, b'{"seq":0,"type":"exit"}\n{"layer":"network","rule":"network.none"}\n\x1b[2J\r\n')
for _ in range(16): os.write(1, b"A" * 4096)
for i in range(256): os.write(2, bytes([i]))`)
	stdout, err := base64.StdEncoding.DecodeString(res.Stdout)
	stderr, err2 := base64.StdEncoding.DecodeString(res.Stderr)
	if res.Outcome != api.OutcomeOK || res.Encoding != "base64" || err != nil || err2 != nil {
		t.Fatalf("outcome %s, encoding %s, %v, %v", res.Outcome, res.Encoding, err, err2)
	}
	if !bytes.HasPrefix(stdout, []byte(`{"seq":0`)) || !bytes.HasSuffix(stdout, bytes.Repeat([]byte("A"), 1<<16)) || res.StdoutBytes != int64(len(stdout)) {
		t.Errorf("stdout of %d bytes is not what was printed", len(stdout))
	}
	for i, b := range stderr {
		if int(b) != i {
			t.Fatalf("byte %d of stderr is %#x", i, b)
		}
	}
	if len(stderr) != 256 || len(res.Denials) != 0 {
		t.Errorf("%d bytes of stderr, denials %+v", len(stderr), res.Denials)
	}
}

// TestUserNamespaceOwner: the kernel charges a jail's inotify instances and the like to the owner of its user namespace as
// well, which must not be root or any other jail's.
func TestUserNamespaceOwner(t *testing.T) {
	const getOwner = 0xb704 // NS_GET_OWNER_UID, linux/nsfs.h
	a := harness.Start(t, harness.Options{})
	for _, mode := range []string{"syd", "minimal"} {
		job, err := a.Client.Start(t.Context(), api.JobRequest{Command: []string{"sleep", "7177"}, Jail: mode})
		if err != nil {
			t.Fatal(err)
		}
		var pids []int
		for deadline := time.Now().Add(10 * harness.Slow); len(pids) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			pids = harness.Find("sleep\x007177")
		}
		if len(pids) != 1 {
			t.Fatalf("%s: processes %v, want one", mode, pids)
		}
		proc := "/proc/" + strconv.Itoa(pids[0])
		ns, err := os.Open(proc + "/ns/user")
		if err != nil {
			t.Fatal(err)
		}
		owner, err := unix.IoctlGetUint32(int(ns.Fd()), getOwner)
		ns.Close()
		ids, err2 := os.ReadFile(proc + "/uid_map")
		if want := strings.Fields(string(ids)); err != nil || err2 != nil || strconv.Itoa(int(owner)) != want[1] {
			t.Errorf("%s: owner %d, want %v; %v, %v", mode, owner, want, err, err2)
		}
		if _, err := a.Client.Cancel(t.Context(), job.ID); err != nil {
			t.Error(err)
		}
	}
}

// TestMinimalMakesNoUserNamespaces: without a filter, the jail's own setting refuses them.
func TestMinimalMakesNoUserNamespaces(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	res := a.Run(api.JobRequest{Command: []string{"unshare", "--user", "true"}, Jail: "minimal"})
	if res.Outcome != api.OutcomeExit || !strings.Contains(res.Stderr, "No space left on device") { // ENOSPC: over the maximum
		t.Errorf("outcome %s %q", res.Outcome, res.Stderr)
	}
}

// TestNodeLoopback: a job without a network namespace of its own reaches nothing that listens on the node's loopback
// (kubelet, agents), in whatever form it writes the address.
func TestNodeLoopback(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	var l net.Listener
	err := harness.InNetns(a.Netns(), func() (err error) { l, err = net.Listen("tcp", ":0"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	res := a.Run(api.JobRequest{
		Jail: "minimal", Network: api.Network{Mode: "open"}, Language: "python",
		Code: fmt.Sprintf(`import errno, socket
for a in ("127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"):
    s = socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET)
    print(a, errno.errorcode.get(s.connect_ex((a, %d)), "connected"))`, l.Addr().(*net.TCPAddr).Port),
	})
	if res.Outcome != api.OutcomeOK || strings.Count(res.Stdout, " EPERM\n") != 7 {
		t.Errorf("%s\n%s%s", res.Outcome, res.Stdout, res.Stderr)
	}
}
