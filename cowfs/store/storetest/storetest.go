// Package storetest says in tests what a store.Store is: every driver must pass Run. It also holds the wrapper that makes
// a store fail on purpose.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

// Run checks every promise of store.Store. open returns a store on the same, empty bucket each time it is called within
// one test: two of them are two agents.
func Run(t *testing.T, bucket func(t *testing.T) (open func() store.Store)) {
	for _, behaviour := range []struct {
		name string
		run  func(t *testing.T, a, b store.Store)
	}{
		{"what was put is read by another client", readAfterWrite},
		{"a missing object is ErrNotFound", missingObject},
		{"put replaces the whole object", putReplaces},
		{"put if absent never replaces", putIfAbsent},
		{"put if match refuses a stale version", putIfMatch},
		{"one of many creators wins", oneCreator},
		{"no increment is lost under put if match", increments},
		{"a range is exact and never short", ranges},
		{"get refuses what is over the limit", getLimit},
		{"a listing has all keys below the prefix, in order", listing},
		{"delete is idempotent, conditional delete is not", deletes},
		{"keys that some store cannot hold are refused", badKeys},
	} {
		t.Run(behaviour.name, func(t *testing.T) {
			open := bucket(t)
			a, b := open(), open()
			defer a.Close()
			defer b.Close()
			behaviour.run(t, a, b)
		})
	}
}

func readAfterWrite(t *testing.T, a, b store.Store) {
	for _, data := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16)} {
		v, err := a.Put(t.Context(), "dir/key", data)
		must(t, err)
		got, info, err := b.Get(t.Context(), "dir/key", 1<<30)
		must(t, err)
		if !bytes.Equal(got, data) || info.Size != int64(len(data)) || info.Version != v || info.Key != "dir/key" {
			t.Errorf("got %d bytes, %+v, want %d bytes at %s", len(got), info, len(data), v)
		}
		if st, err := b.Stat(t.Context(), "dir/key"); err != nil || st != info {
			t.Errorf("stat %+v %v, want %+v", st, err, info)
		}
	}
}

func missingObject(t *testing.T, a, _ store.Store) {
	_, _, err := a.Get(t.Context(), "no/such", 10)
	want(t, err, store.ErrNotFound)
	_, err = a.GetRange(t.Context(), "no/such", 0, 1)
	want(t, err, store.ErrNotFound)
	_, err = a.Stat(t.Context(), "no/such")
	want(t, err, store.ErrNotFound)
	_, err = a.PutIfMatch(t.Context(), "no/such", nil, "1")
	want(t, err, store.ErrPrecondition)
	want(t, a.DeleteIfMatch(t.Context(), "no/such", "1"), store.ErrPrecondition)
}

func putReplaces(t *testing.T, a, b store.Store) {
	v1, err := a.Put(t.Context(), "k", []byte("a longer first version"))
	must(t, err)
	v2, err := b.Put(t.Context(), "k", []byte("second"))
	must(t, err)
	if v1 == v2 {
		t.Error("two contents have the same version")
	}
	wantContent(t, a, "k", "second")
}

func putIfAbsent(t *testing.T, a, b store.Store) {
	_, err := a.PutIfAbsent(t.Context(), "k", []byte("first"))
	must(t, err)
	_, err = b.PutIfAbsent(t.Context(), "k", []byte("second"))
	want(t, err, store.ErrPrecondition)
	wantContent(t, b, "k", "first")
}

func putIfMatch(t *testing.T, a, b store.Store) {
	v1, err := a.Put(t.Context(), "k", []byte("1"))
	must(t, err)
	v2, err := b.PutIfMatch(t.Context(), "k", []byte("2"), v1)
	must(t, err)
	_, err = a.PutIfMatch(t.Context(), "k", []byte("3"), v1)
	want(t, err, store.ErrPrecondition)
	wantContent(t, a, "k", "2")
	_, err = a.PutIfMatch(t.Context(), "k", []byte("3"), v2)
	must(t, err)
	wantContent(t, b, "k", "3")
}

func oneCreator(t *testing.T, a, b store.Store) {
	for round := range 5 {
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			s := []store.Store{a, b}[i%2]
			wg.Go(func() {
				_, err := s.PutIfAbsent(t.Context(), fmt.Sprintf("race-%d", round), []byte{byte(i)})
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, store.ErrPrecondition) {
					t.Errorf("loser: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("round %d: %d winners", round, won.Load())
		}
	}
}

func increments(t *testing.T, a, b store.Store) {
	const clients, each = 4, 5
	_, err := a.Put(t.Context(), "n", []byte{0})
	must(t, err)
	var wg sync.WaitGroup
	for i := range clients {
		s := []store.Store{a, b}[i%2]
		wg.Go(func() {
			for range each {
				for {
					data, info, err := s.Get(t.Context(), "n", 10)
					if err != nil {
						t.Error(err)
						return
					}
					_, err = s.PutIfMatch(t.Context(), "n", []byte{data[0] + 1}, info.Version)
					if err == nil {
						break
					}
					if !errors.Is(err, store.ErrPrecondition) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	wantContent(t, a, "n", string([]byte{clients * each}))
}

func ranges(t *testing.T, a, _ store.Store) {
	_, err := a.Put(t.Context(), "k", []byte("0123456789"))
	must(t, err)
	for _, r := range []struct {
		off, n int64
		want   string
	}{{0, 10, "0123456789"}, {3, 4, "3456"}, {9, 1, "9"}, {10, 0, ""}, {0, 0, ""}} {
		got, err := a.GetRange(t.Context(), "k", r.off, r.n)
		if err != nil || string(got) != r.want {
			t.Errorf("range %d+%d: %q %v, want %q", r.off, r.n, got, err, r.want)
		}
	}
	for _, r := range [][2]int64{{0, 11}, {11, 0}, {10, 1}, {-1, 1}, {0, -1}, {5, 1<<63 - 1}} {
		if got, err := a.GetRange(t.Context(), "k", r[0], r[1]); err == nil {
			t.Errorf("range %d+%d: %q, want an error", r[0], r[1], got)
		}
	}
}

func getLimit(t *testing.T, a, _ store.Store) {
	_, err := a.Put(t.Context(), "k", []byte("0123456789"))
	must(t, err)
	if _, _, err := a.Get(t.Context(), "k", 9); err == nil {
		t.Error("10 bytes were returned under a limit of 9")
	}
	if _, _, err := a.Get(t.Context(), "k", 10); err != nil {
		t.Error(err)
	}
}

func listing(t *testing.T, a, b store.Store) {
	keys := []string{"p/a", "p/a-b/c", "p/a.b", "p/a0/x", "p/d/e/f", "p/z"}
	for _, k := range slices.Backward(keys) {
		_, err := a.Put(t.Context(), k, []byte(k))
		must(t, err)
	}
	for _, other := range []string{"pp/a", "o", "q/p/a"} {
		_, err := a.Put(t.Context(), other, nil)
		must(t, err)
	}
	got := list(t, b, "p")
	if !slices.Equal(got, keys) {
		t.Errorf("listed %v, want %v", got, keys)
	}
	if got := list(t, b, "p/d"); !slices.Equal(got, []string{"p/d/e/f"}) {
		t.Errorf("listed %v", got)
	}
	if got := list(t, b, "nothing/here"); len(got) != 0 {
		t.Errorf("listed %v", got)
	}
	for range b.List(t.Context(), "p") {
		break // stopping early must not panic
	}
}

func deletes(t *testing.T, a, b store.Store) {
	v1, err := a.Put(t.Context(), "d/e/k", []byte("1"))
	must(t, err)
	v2, err := a.Put(t.Context(), "d/e/k", []byte("2"))
	must(t, err)
	want(t, b.DeleteIfMatch(t.Context(), "d/e/k", v1), store.ErrPrecondition)
	wantContent(t, a, "d/e/k", "2")
	must(t, b.DeleteIfMatch(t.Context(), "d/e/k", v2))
	must(t, b.Delete(t.Context(), "d/e/k"))
	if got := list(t, a, "d"); len(got) != 0 {
		t.Errorf("left %v", got)
	}
	// The place is free for anything, also for what was a directory.
	_, err = a.Put(t.Context(), "d", []byte("x"))
	must(t, err)
}

func badKeys(t *testing.T, a, _ store.Store) {
	long := string(bytes.Repeat([]byte("x"), 300))
	for _, key := range []string{"", "/", "a/", "/a", "a//b", "..", "a/../b", ".", ".lock", "a/.b", "A", "a b", "ä", "a\\b", "a\x00", long, "a/" + long} {
		_, err := a.Put(t.Context(), key, nil)
		want(t, err, store.ErrKey)
		_, _, err = a.Get(t.Context(), key, 1)
		want(t, err, store.ErrKey)
		want(t, a.Delete(t.Context(), key), store.ErrKey)
	}
}

func list(t *testing.T, s store.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range s.List(t.Context(), prefix) {
		must(t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

func wantContent(t *testing.T, s store.Store, key, content string) {
	t.Helper()
	got, _, err := s.Get(context.WithoutCancel(t.Context()), key, 1<<20)
	if err != nil || string(got) != content {
		t.Errorf("%s holds %q %v, want %q", key, got, err, content)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}
