package socket

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestEveryDenialIsAnEvent: who follows a job is told every refusal that the result lists, refused calls when they are refused and
// what shows only at the end before the last event.
func TestEveryDenialIsAnEvent(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	for name, req := range map[string]api.JobRequest{
		"syscall, file": code("import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nopen('/usr/x', 'w')", api.Limits{}),
		"file, limit":   code("import sys\ntry: open('/etc/x', 'w')\nexcept OSError as e: sys.stderr.write('%s\\n' % e)\nx = bytearray(10**9)", api.Limits{Memory: 64 << 20}),
		"signal":        {Command: []string{"sh", "-c", "kill -SEGV $$"}},
		"network":       code("import socket\nsocket.create_connection(('10.1.2.3', 80), 5)", api.Limits{}),
		"none":          {Command: []string{"true"}},
	} {
		t.Run(name, func(t *testing.T) {
			res := a.Run(req)
			if (len(res.Denials) == 0) != (name == "none") {
				t.Errorf("%s %s %+v", res.Outcome, res.Stderr, res.Denials)
			}
			list, err := a.Client.List(t.Context(), client.ListOptions{Limit: 1})
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("%+v %v", list, err)
			}
			var told, listed []string
			for e, err := range a.Client.Events(t.Context(), list.Items[0].ID, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Type != "denial" {
					continue
				}
				var d api.Denial
				if err := json.Unmarshal(e.Data, &d); err != nil {
					t.Fatal(err)
				}
				told = append(told, d.Rule+" "+d.What+" "+string(d.Fix))
			}
			for _, d := range res.Denials {
				listed = append(listed, d.Rule+" "+d.What+" "+string(d.Fix))
			}
			slices.Sort(told)
			slices.Sort(listed)
			if !slices.Equal(told, listed) {
				t.Errorf("events tell of %q, the result lists %q", told, listed)
			}
		})
	}
}
