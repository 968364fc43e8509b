package hosttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const jailPackage = "github.com/tolbooth-dev/tolbooth/jail/cmd/tolbooth-jail"

// built is the binary made by this process; Main removes its directory.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// JailBinary returns the path of a static tolbooth-jail: the one named in $TOLBOOTH_JAIL, or one built from this source,
// once in a test process. It has the build version of an unversioned build, as the test has.
func JailBinary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("TOLBOOTH_JAIL"); path != "" {
		return path
	}
	built.once.Do(func() { built.dir, built.err = buildJail() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "tolbooth-jail")
}

func buildJail() (string, error) {
	dir, err := os.MkdirTemp("", "tolbooth-jail-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir, jailPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build tolbooth-jail: %w\n%s", err, out)
	}
	return dir, nil
}
