package cowfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
	"github.com/tolbooth-dev/tolbooth/cowfs/store/storetest"
)

// withBucket makes managers share a bucket.
func withBucket(b store.Store, node string) func(*Options) {
	return func(o *Options) { o.Bucket, o.Node = b, node }
}

func fileBucket(t testing.TB) *store.File {
	t.Helper()
	b, err := store.OpenFile(t.TempDir())
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func TestAnUnchangedTreeMakesNoSnapshot(t *testing.T) {
	m := newManager(t, withBucket(fileBucket(t), "a"))
	tree := create(t, m, CreateOptions{Workspace: "ws"})
	must(t, tree.WriteFile("f", []byte("x"), 0o644, JobID, JobID))
	must(t, tree.WriteFile("/etc/hosts", []byte("one"), 0o644, 0, 0)) // every job has its own
	first, _, err := tree.Flush(context.Background(), FlushMeta{})
	must(t, err)
	must(t, tree.Discard())
	tree = create(t, m, CreateOptions{Workspace: "ws"})
	must(t, tree.WriteFile("/etc/hosts", []byte("other"), 0o644, 0, 0))
	second, stats, err := tree.Flush(context.Background(), FlushMeta{})
	if err != nil || second != first || !stats.Unchanged || stats.BytesAdded != 0 {
		t.Errorf("flush %s %+v %v, want %s unchanged", second, stats, err, first)
	}
}

func TestEphemeralAndUnrestoredTreesAreNeverFlushed(t *testing.T) {
	bucket := fileBucket(t)
	m := newManager(t, withBucket(bucket, "a"))
	tree := create(t, m, CreateOptions{})
	if _, _, err := tree.Flush(context.Background(), FlushMeta{}); !errors.Is(err, ErrNotFlushable) {
		t.Errorf("flush of an ephemeral tree: %v", err)
	}
	named := create(t, m, CreateOptions{ID: "named", Workspace: "ws"})
	named.record.Restored = false
	if _, _, err := named.Flush(context.Background(), FlushMeta{}); !errors.Is(err, ErrNotFlushable) {
		t.Errorf("flush of a tree that was not restored: %v", err)
	}
	must(t, named.Park("test", true))
	if list, err := m.Parked(); err != nil || len(list) != 0 {
		t.Errorf("parked %v %v: half a workspace must not wait for a flush", list, err)
	}
}

func TestLeaseOfAWorkspace(t *testing.T) {
	m := newManager(t, withBucket(fileBucket(t), "a"))
	first := create(t, m, CreateOptions{ID: "one", Workspace: "ws"})
	o := CreateOptions{ID: "two", Workspace: "ws", IDBase: testIDBase}
	if _, err := m.Create(context.Background(), o); !errors.Is(err, ErrBusy) {
		t.Errorf("second create: %v, want ErrBusy", err)
	}
	if err := m.Delete(context.Background(), "ws"); !errors.Is(err, ErrBusy) {
		t.Errorf("delete: %v, want ErrBusy", err)
	}
	o.Wait = true
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := m.Create(short, o); !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("create with a deadline: %v", err)
	}
	got := make(chan error)
	go func() {
		tree, err := m.Create(context.Background(), o)
		if err == nil {
			err = tree.Discard()
		}
		got <- err
	}()
	time.Sleep(20 * time.Millisecond)
	must(t, first.Discard())
	must(t, <-got)
	if _, err := m.Create(context.Background(), CreateOptions{ID: "x", Workspace: "../x", IDBase: testIDBase}); !errors.Is(err, ErrName) {
		t.Errorf("bad name: %v", err)
	}
}

func TestTheLoserOfAConflictIsParkedAndNothingIsDropped(t *testing.T) {
	bucket := fileBucket(t)
	ctx := context.Background()
	for round, existed := range []bool{false, true} {
		name := fmt.Sprintf("ws%d", round)
		a := newManager(t, withBucket(bucket, "node-a"))
		b := newManager(t, withBucket(bucket, "node-b"))
		if existed {
			tree := create(t, a, CreateOptions{Workspace: name})
			must(t, tree.WriteFile("base", []byte("base"), 0o644, JobID, JobID))
			_, _, err := tree.Flush(ctx, FlushMeta{})
			must(t, err)
			must(t, tree.Discard())
		}
		ta := create(t, a, CreateOptions{ID: "ja", Workspace: name})
		tb := create(t, b, CreateOptions{ID: "jb", Workspace: name})
		must(t, ta.WriteFile("a", []byte("a"), 0o644, JobID, JobID))
		must(t, tb.WriteFile("b", []byte("b"), 0o644, JobID, JobID))
		won, _, err := ta.Flush(ctx, FlushMeta{})
		must(t, err)
		if _, _, err := tb.Flush(ctx, FlushMeta{}); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "node-a") {
			t.Errorf("loser: %v, want ErrConflict naming node-a", err)
		}
		must(t, tb.Park("conflict", true))
		if n, err := b.RetryParked(ctx); n != 0 || !errors.Is(err, ErrConflict) {
			t.Errorf("retry: %d %v", n, err)
		}
		list, err := b.Parked()
		if err != nil || len(list) != 1 || list[0].Workspace != name || list[0].Retry || list[0].Job != "jb" {
			t.Errorf("parked %+v %v", list, err)
		}
		data, err := os.ReadFile(filepath.Join(b.parked.Name(), list[0].Name, "upper/workspace/b"))
		if err != nil || string(data) != "b" {
			t.Errorf("the loser's work: %q %v", data, err)
		}
		if ws, err := b.Get(ctx, name); err != nil || ws.Head != won || !ws.Unflushed {
			t.Errorf("workspace %+v %v", ws, err)
		}
		must(t, b.DropParked(list[0].Name))
	}
}

func TestConcurrentPublishHasOneWinner(t *testing.T) {
	bucket := fileBucket(t)
	a := newManager(t, withBucket(bucket, "node-a"))
	b := newManager(t, withBucket(bucket, "node-b"))
	ctx := context.Background()
	for round := range 10 {
		trees := []*Tree{
			create(t, a, CreateOptions{ID: "ja", Workspace: "ws"}),
			create(t, b, CreateOptions{ID: "jb", Workspace: "ws"}),
		}
		errs := make(chan error, 2)
		for i, tree := range trees {
			must(t, tree.WriteFile("who", fmt.Appendf(nil, "%d %d", round, i), 0o644, JobID, JobID))
			go func() {
				_, _, err := tree.Flush(ctx, FlushMeta{})
				errs <- err
			}()
		}
		won := 0
		for range trees {
			if err := <-errs; err == nil {
				won++
			} else if !errors.Is(err, ErrConflict) {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("round %d: %d winners", round, won)
		}
		for _, tree := range trees {
			must(t, tree.Discard())
		}
	}
}

func TestAFlushThatFailsAnywhereChangesNothingAndCanBeRepeated(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late=%v", late), func(t *testing.T) {
			inner := fileBucket(t)
			faulty := &storetest.Faulty{Store: inner, Late: late}
			m := newManager(t, withBucket(faulty, "a"))
			ctx := context.Background()
			tree := create(t, m, CreateOptions{Workspace: "ws"})
			head := ""
			for step := range 3 {
				must(t, tree.WriteFile("f", fmt.Appendf(nil, "step %d", step), 0o644, JobID, JobID))
				for call := int64(1); ; call++ {
					faulty.Reset(call)
					id, _, err := tree.Flush(ctx, FlushMeta{})
					failed := faulty.Calls() >= call
					faulty.Reset(0)
					if err == nil && !failed {
						head = id
						break
					}
					ws, getErr := m.Get(ctx, "ws")
					if err == nil {
						// The write had happened, and reading back found it.
						head = id
						must(t, tree.WriteFile("f", fmt.Appendf(nil, "step %d call %d", step, call), 0o644, JobID, JobID))
					} else if !errors.Is(err, storetest.ErrInjected) {
						t.Fatalf("step %d call %d: %v", step, call, err)
					}
					if getErr == nil && ws.Head != head {
						if !late {
							t.Fatalf("step %d call %d: head moved to %s by a failed flush", step, call, ws.Head)
						}
						head = ws.Head // published, and the answer lost twice
					}
					if call > 50 {
						t.Fatal("flush never succeeds")
					}
				}
			}
			want := dump(t, tree.upper, testIDBase, m.skip)
			must(t, tree.Discard())
			again := create(t, m, CreateOptions{Workspace: "ws"})
			if got := dump(t, again.upper, testIDBase, m.skip); !slices.Equal(got, want) {
				diffLines(t, got, want)
			}
		})
	}
}

func TestParkedWorkIsFlushedWhenTheStoreIsBack(t *testing.T) {
	inner := fileBucket(t)
	faulty := &storetest.Faulty{Store: inner}
	m := newManager(t, withBucket(faulty, "a"))
	ctx := context.Background()
	tree := create(t, m, CreateOptions{Workspace: "ws"})
	must(t, tree.WriteFile("f", []byte("work"), 0o644, JobID, JobID))
	faulty.Reset(1)
	if _, _, err := tree.Flush(ctx, FlushMeta{}); !errors.Is(err, storetest.ErrInjected) {
		t.Fatal(err)
	}
	must(t, tree.Park("store is down", true))
	wantEmpty(t, m.run.Name())
	if list, err := m.Parked(); err != nil || len(list) != 1 || !list[0].Retry || list[0].Reason != "store is down" {
		t.Fatalf("parked %+v %v", list, err)
	}
	if n, err := m.RetryParked(ctx); n != 1 || err != nil {
		t.Fatalf("retry: %d %v", n, err)
	}
	wantEmpty(t, m.parked.Name())
	again := create(t, m, CreateOptions{Workspace: "ws"})
	if data, _, err := again.ReadFile("f", 10); err != nil || string(data) != "work" {
		t.Errorf("%q %v", data, err)
	}
}

func TestLeftoversOfAKilledAgent(t *testing.T) {
	bucket := fileBucket(t)
	dead := newManager(t, withBucket(bucket, "a"))
	ctx := context.Background()
	// What a killed agent leaves: directories and no mounts.
	abandon := func(id, ws, content string) {
		tree, err := dead.Create(ctx, CreateOptions{ID: id, Workspace: ws, IDBase: testIDBase})
		must(t, err)
		must(t, tree.WriteFile("f", []byte(content), 0o644, JobID, JobID))
		must(t, tree.unmount())
		must(t, tree.dir.Close())
		if tree.lease != nil {
			tree.lease.release()
		}
	}
	abandon("ephemeral", "", "x")
	abandon("adopted", "ws1", "one")
	abandon("parked", "ws2", "two")
	abandon("rebooted", "ws3", "three")

	m := newManager(t, func(o *Options) { o.StateDir, o.Bucket, o.Node = filepath.Dir(dead.run.Name()), bucket, "a" })
	left, err := m.Leftovers()
	if err != nil || len(left) != 4 {
		t.Fatalf("leftovers %+v %v", left, err)
	}
	for _, l := range left {
		switch l.ID {
		case "ephemeral":
			tree, err := m.Adopt(ctx, l)
			must(t, err)
			if data, _, err := tree.ReadFile("f", 10); err != nil || string(data) != "x" {
				t.Errorf("adopted: %q %v", data, err)
			}
			must(t, tree.Discard())
		case "adopted":
			tree, err := m.Adopt(ctx, l)
			must(t, err)
			_, _, err = tree.Flush(ctx, FlushMeta{Job: l.ID})
			must(t, err)
			must(t, tree.Discard())
		case "parked":
			must(t, m.Abandon(l, "the agent was killed"))
		case "rebooted":
			boot := m.node.boot
			m.node.boot = "another"
			if _, err := m.Adopt(ctx, l); !errors.Is(err, ErrNotFlushable) {
				t.Errorf("adopt after a restart of the node: %v", err)
			}
			must(t, m.Abandon(l, "the agent was killed"))
			m.node.boot = boot
		}
	}
	if n, err := m.RetryParked(ctx); n != 1 || err != nil {
		t.Errorf("retry: %d %v", n, err)
	}
	list, err := m.Parked()
	if err != nil || len(list) != 1 || list[0].Workspace != "ws3" || list[0].Retry {
		t.Errorf("parked %+v %v", list, err)
	}
	names, err := m.List(ctx)
	if err != nil || !slices.Equal(names, []string{"ws1", "ws2"}) {
		t.Errorf("workspaces %v %v", names, err)
	}
	wantEmpty(t, m.run.Name())
}

func TestARefusedEntryIsNamedAndTheTreeIsKept(t *testing.T) {
	m := newManager(t, withBucket(fileBucket(t), "a"))
	for name, do := range map[string]func(tree *Tree) error{
		"owner": func(tree *Tree) error {
			return errors.Join(os.WriteFile(inside(tree, "workspace/bad"), nil, 0o644), os.Chown(inside(tree, "workspace/bad"), 0, 0))
		},
		"device": func(tree *Tree) error {
			return unix.Mknodat(int(tree.upper.Fd()), "bad", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0)))
		},
		"redirect": func(tree *Tree) error {
			must(t, unix.Mkdirat(int(tree.upper.Fd()), "bad", 0o755))
			must(t, os.Chown(fdPath(tree.upper)+"/bad", testIDBase, testIDBase))
			return unix.Setxattr(fdPath(tree.upper)+"/bad", "trusted.overlay.redirect", []byte("/etc"), 0)
		},
		"metacopy": func(tree *Tree) error {
			must(t, os.WriteFile(fdPath(tree.upper)+"/bad", nil, 0o644))
			must(t, os.Chown(fdPath(tree.upper)+"/bad", testIDBase, testIDBase))
			return unix.Setxattr(fdPath(tree.upper)+"/bad", "trusted.overlay.metacopy", nil, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := create(t, m, CreateOptions{ID: name, Workspace: name})
			must(t, do(tree))
			_, _, err := tree.Flush(context.Background(), FlushMeta{})
			if err == nil || !strings.Contains(err.Error(), "bad") {
				t.Errorf("flush: %v, want an error that names the entry", err)
			}
			if names, err := m.List(context.Background()); err != nil || len(names) != 0 {
				t.Errorf("published %v %v", names, err)
			}
		})
	}
}
