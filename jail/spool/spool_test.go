package spool

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(appendEnv); path != "" {
		appendMany(path)
		return
	}
	hosttest.Main(m)
}

func create(t testing.TB) (*os.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spool")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, path
}

func open(t testing.TB, path string) *Reader {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestRecordsComeBackInOrder(t *testing.T) {
	f, path := create(t)
	w := NewWriter(f, time.Now().Add(-time.Second))
	payloads := []string{"", "x", strings.Repeat("long ", 5000), strings.Repeat("m", MaxPayload)}
	for _, p := range payloads {
		if err := w.Append(Stdout, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, path)
	var last int64
	n := 0
	err := Scan(r, func(rec Record) error {
		if rec.Seq != int64(n) || rec.Kind != Stdout || string(rec.Payload) != payloads[n] {
			t.Errorf("record %d: seq %d, kind %d, %d bytes", n, rec.Seq, rec.Kind, len(rec.Payload))
		}
		if rec.AtUS < 1_000_000 || rec.AtUS < last || rec.AtUS > 60_000_000 {
			t.Errorf("record %d is at %d µs, the one before at %d", n, rec.AtUS, last)
		}
		last = rec.AtUS
		n++
		return nil
	})
	if err != nil || n != len(payloads) {
		t.Errorf("%d records, error %v", n, err)
	}
}

func TestReaderFollowsAGrowingFile(t *testing.T) {
	f, path := create(t)
	w := NewWriterAt(f, MonotonicNow())
	r := open(t, path)
	for i := range 50 {
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("before record %d: %v, want EOF", i, err)
		}
		want := bytes.Repeat([]byte{byte(i)}, i*100)
		if err := w.Append(Stderr, want); err != nil {
			t.Fatal(err)
		}
		rec, err := r.Next()
		if err != nil || rec.Seq != int64(i) || !bytes.Equal(rec.Payload, want) {
			t.Fatalf("record %d: seq %d, %d bytes, error %v", i, rec.Seq, len(rec.Payload), err)
		}
	}
}

func TestSkipTo(t *testing.T) {
	f, path := create(t)
	w := NewWriter(f, time.Now())
	for _, p := range []string{"0", "1", "2"} {
		if err := w.Append(Stdout, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, path)
	if err := r.SkipTo(2); err != nil {
		t.Fatal(err)
	}
	if rec, err := r.Next(); err != nil || string(rec.Payload) != "2" {
		t.Errorf("got %q, %v", rec.Payload, err)
	}
	if err := r.SkipTo(1); err == nil || err == io.EOF {
		t.Errorf("going back: %v", err)
	}
	if err := r.SkipTo(4); err != io.EOF || r.Seq() != 3 {
		t.Errorf("beyond the end: %v, at %d", err, r.Seq())
	}
	for _, p := range []string{"3", "4"} {
		if err := w.Append(Stdout, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SkipTo(4); err != nil {
		t.Errorf("after the file grew: %v", err)
	}
	if rec, err := r.Next(); err != nil || string(rec.Payload) != "4" {
		t.Errorf("got %q, %v", rec.Payload, err)
	}
}

func TestTornEndIsTheEndUntilRepaired(t *testing.T) {
	whole := appendRecord(nil, Stdout, 1, []byte("whole"))
	next := appendRecord(nil, Exit, 2, []byte("exit"))
	for cut := 1; cut < len(next); cut++ {
		f, path := create(t)
		if _, err := f.Write(slices.Concat(whole, next[:cut])); err != nil {
			t.Fatal(err)
		}
		r := open(t, path)
		if rec, err := r.Next(); err != nil || string(rec.Payload) != "whole" {
			t.Fatalf("cut at %d: %q, %v", cut, rec.Payload, err)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("cut at %d: %v, want EOF", cut, err)
		}
		if n, err := Repair(path); n != 1 || err != nil {
			t.Fatalf("repair after cut at %d: %d records, %v", cut, n, err)
		}
		if err := NewWriter(f, time.Now()).Append(Exit, []byte("lost")); err != nil {
			t.Fatal(err)
		}
		// The reader that saw the torn record sees the new one in its place.
		if rec, err := r.Next(); err != nil || rec.Seq != 1 || string(rec.Payload) != "lost" {
			t.Fatalf("after repair of cut at %d: %q, %v", cut, rec.Payload, err)
		}
	}
}

func TestHostileBytesAreRefused(t *testing.T) {
	good := appendRecord(nil, Stdout, 1, []byte("good"))
	change := func(at int, b ...byte) []byte {
		bad := slices.Clone(good)
		copy(bad[at:], b)
		return bad
	}
	tests := map[string][]byte{
		"length over the limit": change(0, 1, 0, 1, 0),
		"largest length":        change(0, 0xff, 0xff, 0xff, 0xff),
		"kind zero":             change(4, 0),
		"unknown kind":          change(4, byte(Refusal)+1),
		"no mark":               change(5, 'x'),
		"other version":         change(7, 2),
		"text":                  []byte("this is no spool at all"),
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			f, path := create(t)
			if _, err := f.Write(slices.Concat(good, bad, good)); err != nil {
				t.Fatal(err)
			}
			r := open(t, path)
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // and it stays so
				if _, err := r.Next(); !errors.Is(err, ErrCorrupt) {
					t.Errorf("error %v, want ErrCorrupt", err)
				}
			}
			if n, err := Repair(path); n != 1 || !errors.Is(err, ErrCorrupt) {
				t.Errorf("repair: %d records, %v", n, err)
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	f, path := create(t)
	w := NewWriter(f, time.Now())
	if err := w.Append(Stdout, make([]byte, MaxPayload+1)); err == nil {
		t.Error("payload over the limit accepted")
	}
	for _, k := range []Kind{0, Refusal + 1} {
		if err := w.Append(k, nil); err == nil {
			t.Errorf("kind %d accepted", k)
		}
	}
	if info, _ := os.Stat(path); info.Size() != 0 {
		t.Errorf("refused records left %d bytes", info.Size())
	}
	plain, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := NewWriter(plain, time.Now()).Append(Stdout, nil); err == nil {
		t.Error("a descriptor without O_APPEND accepted")
	}
}

func TestMonotonicIsCarriedOver(t *testing.T) {
	zero := time.Now()
	ns := Monotonic(zero)
	time.Sleep(2 * time.Millisecond)
	if drift := Monotonic(zero) - ns; drift < -1_000_000 || drift > 1_000_000 {
		t.Errorf("the same time is %d ns off later", drift)
	}
	// The time that passes between reading both clocks is no error.
	before := time.Since(zero).Nanoseconds()
	since := MonotonicNow() - ns
	after := time.Since(zero).Nanoseconds()
	if since < before-1_000_000 || since > after+1_000_000 {
		t.Errorf("%d ns, want %d to %d", since, before, after)
	}
}
