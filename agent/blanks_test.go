package agent

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestBlanks(t *testing.T) {
	dir := t.TempDir()
	b, err := newBlanks(filepath.Join(dir, "blank"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a.json")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		f, err := b.open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, part := range []string{text, "!"} {
			if _, err := f.WriteString(part); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text+"!" {
			t.Errorf("%q, %v; want %q", got, err, text+"!")
		}
	}
	write("none is ready")

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.keep(ctx) })
	for len(b.ready) < blankCount {
		time.Sleep(time.Millisecond)
	}
	write("one is ready")
	stop()
	wg.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "blank", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
