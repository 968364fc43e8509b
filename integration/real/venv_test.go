package real

import (
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestVirtualEnvironment is P13. An environment over the node's own Python works in every job of its workspace; one whose base
// lies where the next job has nothing ends with a start error that names the base, and is no riddle about a file that is there.
func TestVirtualEnvironment(t *testing.T) {
	a := harness.Start(t, harness.Options{Bucket: t.TempDir()})
	in := func(command ...string) *api.Result {
		return a.Run(api.JobRequest{Command: command, Workspace: "environments"})
	}

	// /tmp belongs to one job alone: an interpreter there is as far away from the next job as one that was never in the jail.
	made := in("bash", "-ec", `
python3 -m venv --without-pip good
mkdir -p /tmp/elsewhere/bin && cp "$(readlink -f /usr/bin/python3)" /tmp/elsewhere/bin/python3
/tmp/elsewhere/bin/python3 -m venv --without-pip bad
for v in good bad; do printf '#!/workspace/%s/bin/python\nprint("tool")\n' $v >$v/bin/tool; chmod 755 $v/bin/tool; done
bad/bin/python -c 'import sys; print(sys.prefix)'`)
	if made.Stdout != "/workspace/bad\n" {
		t.Fatalf("%s %s %s%s", made.Outcome, made.Detail, made.Stdout, made.Stderr)
	}
	for _, c := range []struct {
		command []string
		want    string // stdout, or what the start error says
	}{
		{[]string{"good/bin/python", "-c", "import sys; print(sys.prefix)"}, "/workspace/good\n"},
		{[]string{"good/bin/tool"}, "tool\n"},
		{[]string{"bad/bin/python", "-c", "print(1)"}, `"/tmp/elsewhere/bin/python3", which is not in the jail`},
		{[]string{"bad/bin/tool"}, `names the interpreter "/workspace/bad/bin/python", it is a link that leads to "/tmp/elsewhere/bin/python3"`},
	} {
		res := in(c.command...)
		if strings.HasPrefix(c.command[0], "good") {
			if res.Stdout != c.want {
				t.Errorf("%v: %s %s %s%s", c.command, res.Outcome, res.Detail, res.Stdout, res.Stderr)
			}
			continue
		}
		if res.Outcome != api.OutcomeStartFailed || !strings.Contains(res.Detail, c.want) {
			t.Errorf("%v: %s %s", c.command, res.Outcome, res.Detail)
		}
	}
}
