package real

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestOfflineInstall is P16: a package that comes with the request is installed without a network and without anything changed
// on the node, and later jobs of the workspace have it, whichever way of pip put it there.
func TestOfflineInstall(t *testing.T) {
	hosttest.File(t, "/usr/bin/pip", "make deps")
	a := harness.Start(t, harness.Options{Bucket: t.TempDir()})
	wheel := api.File{Path: "wheels/parcel-1.0-py3-none-any.whl", Content: parcel(t), Encoding: "base64"}
	for _, c := range []struct {
		name string
		how  []string
		env  map[string]string // of the later job
	}{
		{name: "user"}, // since pip sees that it cannot write to /usr
		{name: "target", how: []string{"--target", "lib"}, env: map[string]string{"PYTHONPATH": "lib"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			installed := a.Run(api.JobRequest{
				Command:   append([]string{"pip", "install", "--no-index", "--find-links", "wheels", "parcel"}, c.how...),
				Files:     []api.File{wheel},
				Workspace: c.name,
			})
			if installed.Outcome != api.OutcomeOK || len(installed.Denials) != 0 {
				t.Fatalf("install: %s\n%s%s%s", installed.Outcome, installed.Stdout, installed.Stderr, denials(installed))
			}
			for range 2 {
				later := a.Run(api.JobRequest{Language: "python", Code: "import parcel\nprint(parcel.word())", Workspace: c.name, Env: c.env})
				if later.Stdout != "unpacked\n" {
					t.Errorf("later: %s\n%s%s", later.Outcome, later.Stdout, later.Stderr)
				}
			}
		})
	}
	if other := a.Python("import parcel"); other.Outcome != api.OutcomeExit {
		t.Errorf("a job without the workspace has the package: %s\n%s", other.Outcome, other.Stdout)
	}
}

// parcel is a wheel of a package of one function, in base64.
func parcel(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range []struct{ name, text string }{
		{"parcel/__init__.py", "def word(): return 'unpacked'\n"},
		{"parcel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: parcel\nVersion: 1.0\n"},
		{"parcel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"parcel-1.0.dist-info/RECORD", "parcel/__init__.py,,\nparcel-1.0.dist-info/METADATA,,\nparcel-1.0.dist-info/WHEEL,,\nparcel-1.0.dist-info/RECORD,,\n"},
	} {
		member, err := w.Create(f.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := member.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}
