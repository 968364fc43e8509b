package probe

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	start := time.Now()
	r := Run(context.Background(), Options{StateDir: filepath.Join(t.TempDir(), "not", "yet")})
	t.Logf("took %v", time.Since(start))
	b, _ := json.MarshalIndent(r, "", " ")
	t.Log(string(b))
	for _, l := range r.Layers {
		if !l.OK && (l.Why == "" || l.Fix == "") {
			t.Errorf("layer %s is missing with why %q, fix %q", l.Name, l.Why, l.Fix)
		}
	}
	left, _ := filepath.Glob("/sys/fs/cgroup/unified/*tb-probe*")
	if len(left) > 0 {
		t.Errorf("left behind: %s", strings.Join(left, ", "))
	}
	_ = os.Args
}
