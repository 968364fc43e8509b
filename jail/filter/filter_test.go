package filter

import (
	"runtime"
	"testing"

	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

func mustDefault(t testing.TB) policy.Policy {
	t.Helper()
	p, err := policy.Default(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCompileDefault(t *testing.T) {
	p, err := Compile(mustDefault(t))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range corners(mustDefault(t)) {
		n++
	}
	t.Logf("%d instructions, %d corners", p.Len(), n)
}
