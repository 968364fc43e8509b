package netns

import (
	"os"
	"testing"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv("TOLBOOTH_NETNS_DIAL"); spec != "" {
		dialAsChild(spec)
		return
	}
	hosttest.Main(m)
}
