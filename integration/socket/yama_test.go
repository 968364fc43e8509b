package socket

import (
	"slices"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// underYama executes its arguments where kernel.yama.ptrace_scope reads 3: in a mount namespace of its own, since a machine that was
// told 3 keeps it until it boots. $1 is an empty directory. Beside it stays a /proc that nothing covers, without which the kernel
// lets no user namespace mount one.
const underYama = `
mkdir "$1/proc" "$1/settings"
mount -t proc proc "$1/proc"
cd /proc/sys/kernel
find . -type f | while read -r name; do
	mkdir -p "$1/settings/$(dirname "$name")"
	cat "$name" >"$1/settings/$name" 2>/dev/null || : # some can only be written
done
mkdir -p "$1/settings/yama"
echo 3 >"$1/settings/yama/ptrace_scope"
mount --bind "$1/settings" /proc/sys/kernel
cd /
shift
exec "$@"`

// TestAgentUnderYama is P09: where ptrace is forbidden for good, the agent starts, tells in health and in the node's description what
// is in the way and what it uses instead, and jobs run and are explained as ever.
func TestAgentUnderYama(t *testing.T) {
	for _, program := range []string{"unshare", "mount", "find"} {
		hosttest.Program(t, program)
	}
	hosttest.Kernel(t, 5, 19, "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV")
	a := harness.Start(t, harness.Options{Wrap: []string{"unshare", "-m", "sh", "-ec", underYama, "sh", t.TempDir()}})
	const why = "ptrace blocked by yama=3; using unotify"
	health, err := a.Client.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if health.Status != "degraded" || health.Jail.Grade != "syd" || health.Jail.Layers["ptrace"] != "missing: "+why {
		t.Errorf("health: %+v", health)
	}
	if !slices.ContainsFunc(health.Problems, func(p api.NodeProblem) bool {
		return p.Why == why && strings.Contains(p.Fix, "kernel.yama.ptrace_scope")
	}) {
		t.Errorf("no problem tells how to change that: %+v", health.Problems)
	}
	node, err := a.Client.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if node.Explainer != "notify" || !node.Modes["syd"].Available || node.Modes["syd"].Layers["ptrace"].Why != why {
		t.Errorf("explainer %s, syd %+v", node.Explainer, node.Modes["syd"])
	}
	res := a.Python("import socket\ntry: socket.socket(socket.AF_PACKET)\nexcept OSError as e: print(e.errno)")
	if res.Stdout != "1\n" || find(res, "syscall.socket_family") == nil {
		t.Errorf("%s %s %s%s %+v", res.Outcome, res.Detail, res.Stdout, res.Stderr, res.Denials)
	}
}
