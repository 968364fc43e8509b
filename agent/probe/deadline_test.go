package probe

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAKernelThatDoesNotAnswer: a probe that hangs makes its layers missing, and says so; no explainer is chosen then.
func TestAKernelThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		began := time.Now()
		layers := ask(patience, func() []Layer { <-back; return []Layer{ok("a", ""), ok("b", "")} }, "a", "b")
		if time.Since(began) != patience || len(layers) != 2 {
			t.Fatalf("%+v after %s", layers, time.Since(began))
		}
		for i, l := range layers {
			if l.Name != []string{"a", "b"}[i] || l.OK || !strings.Contains(l.Why, "did not answer within 10s") || l.Fix == "" {
				t.Errorf("%+v", l)
			}
		}
		if l := one("c", func() Layer { return ok("c", "found") }); !l.OK || l.Found != "found" {
			t.Errorf("%+v", l)
		}
		for _, wanted := range []string{"auto", "notify", "ptrace"} {
			e := Explainers{notify: unanswered("unotify", patience), ptrace: ok("ptrace", "")}
			if got, err := e.Choose(wanted); err == nil || !strings.Contains(err.Error(), "did not answer") {
				t.Errorf("%s: chose %q, %v", wanted, got, err)
			}
		}
		close(back)
	})
}
