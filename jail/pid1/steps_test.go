package pid1

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
	for _, mode := range []wire.Mode{wire.Syd, wire.Minimal} {
		plan, ok := mode.Plan()
		if !ok {
			t.Fatal(mode)
		}
		got.WriteString(string(mode) + "\n")
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
