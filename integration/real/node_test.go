package real

import (
	_ "embed"
	"encoding/base64"
	"os"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

//go:embed each.sh
var eachNodeTest string

// nodeTests is made by .ci/node-tests.
const nodeTests = "../../build/node-tests.tar.gz"

// TestNode runs Node's own tests of worker_threads, child_process and fs. They are of the version that Debian packages, which
// need not be that of the node installed: what does not pass outside says nothing.
func TestNode(t *testing.T) {
	hosttest.NotSlow(t, "450 starts of node take too long under emulation")
	hosttest.File(t, "/usr/bin/node", "make deps")
	hosttest.File(t, nodeTests, "run .ci/node-tests")
	archive, err := os.ReadFile(nodeTests)
	if err != nil {
		t.Fatal(err)
	}
	s := suite{
		files: []api.File{
			{Path: "each.sh", Content: eachNodeTest},
			{Path: "node-tests.tar.gz", Content: base64.StdEncoding.EncodeToString(archive), Encoding: "base64"},
		},
		command: func(tests []string) []string { return append([]string{"/bin/sh", "each.sh"}, tests...) },
		parse:   tabbed,
		atLeast: 400,
	}
	s.compare(t, harness.Start(t, harness.Options{}), everything)
}
