package launch

import (
	"os"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// TestStepOrder holds the order of steps against testdata/steps.golden. Their order is the security of this stage: change
// the file by hand, with the reason in the commit.
func TestStepOrder(t *testing.T) {
	var got strings.Builder
	for _, m := range []struct {
		name   string
		mode   wire.Mode
		engine wire.Engine
	}{{"syd, notify", wire.Syd, wire.Notify}, {"syd, ptrace", wire.Syd, wire.Ptrace}, {"minimal", wire.Minimal, ""}} {
		plan, ok := m.mode.Plan(m.engine)
		if !ok {
			t.Fatal(m)
		}
		got.WriteString(m.name + "\n")
		for _, s := range steps(plan) {
			got.WriteString("\t" + s.name + "\n")
		}
	}
	want, err := os.ReadFile("testdata/steps.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the steps are\n%s\nthe golden file has\n%s", got.String(), want)
	}
}
