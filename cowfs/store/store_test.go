package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
	"github.com/tolbooth-dev/tolbooth/cowfs/store/storetest"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

func TestFile(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		dir := t.TempDir()
		return func() store.Store {
			s, err := store.OpenFile(dir)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}

func TestMem(t *testing.T) {
	storetest.Run(t, func(*testing.T) func() store.Store {
		var m store.Mem
		return func() store.Store { return &m }
	})
}

func TestFileLeavesNoTemporaryFilesAndRemovesOldOnes(t *testing.T) {
	dir := t.TempDir()
	s, err := store.OpenFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutIfAbsent(t.Context(), "a/b", []byte("x")); err == nil {
		t.Fatal("replaced")
	}
	if left, err := os.ReadDir(filepath.Join(dir, ".tmp")); err != nil || len(left) != 0 {
		t.Errorf("left %v %v", left, err)
	}
	s.Close()

	old, young := filepath.Join(dir, ".tmp/old"), filepath.Join(dir, ".tmp/young")
	for _, f := range []string{old, young} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if s, err = store.OpenFile(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(old); err == nil {
		t.Error("a day-old temporary file is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("a fresh temporary file of another agent was removed")
	}
}

// TestFileWaitsForNothing: whoever can write into the bucket's directory can put a fifo there.
func TestFileWaitsForNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := store.OpenFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := syscall.Mkfifo(filepath.Join(dir, "head"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "head", 100); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("get of a fifo: %v", err)
	}
}
