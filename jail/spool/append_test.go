package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

const (
	appendEnv   = "SPOOL_TEST_APPEND" // "path id": this process is a writer, not a test
	appendCount = 3000
)

// appendMany is the second process of TestProcessesAppendAtOnce. Each payload is one byte repeated, as long as its number says.
func appendMany(spec string) {
	path, id, _ := strings.Cut(spec, " ")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		panic(err)
	}
	w := NewWriter(f, time.Now())
	for i := range appendCount {
		if err := w.Append(Stdout, fmt.Appendf(nil, "%s %d %s", id, i, strings.Repeat(id, i*7%9000))); err != nil {
			panic(err)
		}
	}
}

func TestProcessesAppendAtOnce(t *testing.T) {
	f, path := create(t)
	var writers sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), appendEnv+"="+path+" "+id)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Go(func() { // this process takes part, with two goroutines on one Writer
		w := NewWriter(f, time.Now())
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for range appendCount {
					if err := w.Append(Denial, []byte("agent")); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		both.Wait()
	})
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()

	// Readers follow while it grows.
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() { checkAppended(t, path, done) })
	}
	readers.Wait()
}

func checkAppended(t *testing.T, path string, done <-chan struct{}) {
	r, err := Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	next := map[string]int{}
	check := func(rec Record) error {
		if rec.Kind == Denial {
			next["agent"]++
			return nil
		}
		id, rest, _ := strings.Cut(string(rec.Payload), " ")
		if want := fmt.Sprintf("%d %s", next[id], strings.Repeat(id, next[id]*7%9000)); rest != want {
			return fmt.Errorf("record %d of writer %q: %.40q, want %.40q", rec.Seq, id, rest, want)
		}
		next[id]++
		return nil
	}
	for finished := false; !finished; {
		select {
		case <-done:
			finished = true // and one scan more
		case <-time.After(time.Millisecond):
		}
		if err := Scan(r, check); err != nil {
			t.Error(err)
			return
		}
	}
	if next["a"] != appendCount || next["b"] != appendCount || next["agent"] != 2*appendCount || len(next) != 3 {
		t.Errorf("records by writer: %v", next)
	}
}

// TestFullDiskLeavesNoTornRecord: the piece of a record that still fitted is taken back, and writing goes on when there
// is room again.
func TestFullDiskLeavesNoTornRecord(t *testing.T) {
	hosttest.Root(t)
	dir := smallTmpfs(t, "64k")
	path, ballast := filepath.Join(dir, "spool"), filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 32<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := NewWriter(f, time.Now())
	payload := bytes.Repeat([]byte("y"), 9000)
	written := 0
	for ; err == nil; written++ {
		err = w.Append(Stdout, payload)
	}
	written--
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("error %v, want ENOSPC", err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != int64(written*(headerSize+len(payload))) {
		t.Errorf("%d bytes after %d whole records, %v", info.Size(), written, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(Exit, payload); err != nil {
		t.Errorf("append with room again: %v", err)
	}
	if n, err := Repair(path); n != int64(written+1) || err != nil {
		t.Errorf("%d records, want %d; %v", n, written+1, err)
	}
}

// smallTmpfs is a tmpfs that is mounted nowhere: reached through its descriptor, and gone when that is closed.
func smallTmpfs(t *testing.T, size string) string {
	t.Helper()
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Fatalf("fsopen(tmpfs): %v", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "size", size); err != nil {
		t.Fatalf("fsconfig(size): %v", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		t.Fatalf("fsconfig(create): %v", err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		t.Fatalf("fsmount(tmpfs): %v", err)
	}
	t.Cleanup(func() { unix.Close(root) })
	return fmt.Sprintf("/proc/self/fd/%d", root)
}
