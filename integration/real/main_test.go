package real

import (
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

func denials(res *api.Result) string {
	var b strings.Builder
	for _, d := range res.Denials {
		b.WriteString(d.Rule + " " + d.What + " by " + d.Program + "\n")
	}
	return b.String()
}
