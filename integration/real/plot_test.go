package real

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestPlot is P15: matplotlib finds a directory for its settings that it can write to, says nothing about it, and the picture
// comes back with the result.
func TestPlot(t *testing.T) {
	hosttest.File(t, "/usr/lib/python3/dist-packages/matplotlib", "make deps")
	a := harness.Start(t, harness.Options{})
	res := a.Run(api.JobRequest{
		Language: "python", Outputs: []string{"*.png"}, Limits: api.Limits{Wall: api.Duration(60 * harness.Slow), CPU: api.Duration(60 * harness.Slow)},
		Code: `
import os, matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot as p
p.plot([1, 2])
p.savefig('o.png')
print([os.access(d, os.W_OK) for d in (matplotlib.get_configdir(), matplotlib.get_cachedir())])`,
	})
	if res.Outcome != api.OutcomeOK || res.Stdout != "[True, True]\n" || res.Stderr != "" || len(res.Denials) != 0 {
		t.Fatalf("%s %s\n%s%s%s", res.Outcome, res.Detail, res.Stdout, res.Stderr, denials(res))
	}
	if len(res.Outputs) != 1 || res.Outputs[0].Path != "o.png" || res.Outputs[0].Encoding != "base64" {
		t.Fatalf("outputs: %+v", res.Outputs)
	}
	picture, err := base64.StdEncoding.DecodeString(res.Outputs[0].Content)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(picture, []byte("\x89PNG")) || int64(len(picture)) != int64(res.Outputs[0].Bytes) {
		t.Errorf("%d bytes, said to be %d: % x…", len(picture), res.Outputs[0].Bytes, picture[:8])
	}
	if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
		t.Error(err)
	}
}
