package cowfs

import "testing"

// TestMayHold: a walk goes only where a pattern may match, so that a deep or crowded directory beside it, node_modules for one,
// neither costs time nor meets the bounds of a walk.
func TestMayHold(t *testing.T) {
	for _, c := range []struct {
		pattern, dir string
		want         bool
	}{
		{"**", "a", true}, {"**/*.txt", "a/b/c", true}, {"*", "a", false}, {"a/*", "a", true}, {"a/*", "b", false}, {"a/*", "a/b", false},
		{"dist/**", "dist", true}, {"dist/**", "dist/a/b", true}, {"dist/**", "node_modules", false}, {"dist/**", "node_modules/dist", false},
		{"*/out/**/x", "a", true}, {"*/out/**/x", "a/out/b", true}, {"*/out/**/x", "a/b", false}, {"*/out/**/x", "out", true},
	} {
		if got := (&globber{patterns: []string{c.pattern}}).mayHold(c.dir); got != c.want {
			t.Errorf("%s may match below %s: %v", c.pattern, c.dir, got)
		}
	}
}
