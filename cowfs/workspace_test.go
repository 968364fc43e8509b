package cowfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
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

// dump describes every entry below dir, all that a snapshot keeps: one line an entry.
func dump(t testing.TB, dir *os.File, idBase uint32, skip func(string) bool) []string {
	t.Helper()
	var lines []string
	inodes := map[uint64]string{}
	var walk fdwalk.Walk
	line := func(path, at string, st *unix.Stat_t) {
		l := fmt.Sprintf("%q mode=%o", path, st.Mode)
		if isWhiteout(st) {
			lines = append(lines, fmt.Sprintf("%q whiteout", path))
			return
		}
		l += fmt.Sprintf(" owner=%d:%d mtime=%d.%09d", int64(st.Uid)-int64(idBase), int64(st.Gid)-int64(idBase), st.Mtim.Sec, st.Mtim.Nsec)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			const most = 96 << 20 // of a file that is all hole, the size says enough
			f, err := os.Open(at)
			must(t, err)
			data, err := io.ReadAll(io.LimitReader(f, min(st.Size, most)))
			must(t, errors.Join(err, f.Close()))
			l += fmt.Sprintf(" size=%d sum=%x sparse=%v", st.Size, blake3.Sum256(data), st.Blocks*512 < st.Size)
		case unix.S_IFLNK:
			target, err := os.Readlink(at)
			if err != nil { // an O_PATH descriptor of the link itself
				buf := make([]byte, 4096)
				n, err := unix.Readlink(at, buf)
				must(t, err)
				target = string(buf[:n])
			}
			l += fmt.Sprintf(" target=%q", target)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if first, ok := inodes[st.Ino]; ok {
				l += fmt.Sprintf(" same as %q", first)
			} else {
				inodes[st.Ino] = path
			}
		}
		lines = append(lines, l+xattrs(t, at, idBase))
	}
	var st unix.Stat_t
	must(t, unix.Fstat(int(dir.Fd()), &st))
	line("", fdPath(dir), &st)
	must(t, walk.Each(dir, func(in *os.File, name string, st *unix.Stat_t) error {
		path := walk.Path(name)
		if skip(path) {
			return fdwalk.ErrSkip
		}
		line(path, fdPath(in)+"/"+name, st)
		return nil
	}))
	return lines
}

// xattrs lists the attributes, ids in ACLs as the jail's.
func xattrs(t testing.TB, at string, idBase uint32) string {
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(at, buf)
	must(t, err)
	names := strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")
	slices.Sort(names)
	out := ""
	for _, name := range names {
		if name == "" || strings.HasPrefix(name, "trusted.overlay.") && name != "trusted.overlay.opaque" {
			continue
		}
		value := make([]byte, 4096)
		n, err := unix.Lgetxattr(at, name, value)
		must(t, err)
		value = value[:n]
		if strings.HasPrefix(name, "system.posix_acl_") {
			for i := 4; i < len(value); i += 8 {
				if tag := binary.LittleEndian.Uint16(value[i:]); tag == 2 || tag == 8 {
					binary.LittleEndian.PutUint32(value[i+4:], binary.LittleEndian.Uint32(value[i+4:])-idBase)
				}
			}
		}
		out += fmt.Sprintf(" %s=%x", name, value)
	}
	return out
}

func acl(entries ...uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for i := 0; i < len(entries); i += 3 {
		b = binary.LittleEndian.AppendUint16(b, uint16(entries[i]))
		b = binary.LittleEndian.AppendUint16(b, uint16(entries[i+1]))
		b = binary.LittleEndian.AppendUint32(b, entries[i+2])
	}
	return b
}

// makeEverything makes one of each kind of entry that a jailed program can leave behind.
func makeEverything(t testing.TB, tree *Tree, idBase uint32) {
	t.Helper()
	ws := inside(tree, "workspace")
	random := rand.NewChaCha8([32]byte{7})
	content := func(n int) []byte {
		b := make([]byte, n)
		random.Read(b)
		return b
	}
	must(t, os.Mkdir(ws+"/small", 0o755))
	for i := range 300 {
		must(t, os.WriteFile(fmt.Sprintf("%s/small/%d", ws, i), content(i*7), 0o644))
	}
	must(t, os.WriteFile(ws+"/same", content(1000), 0o644))
	same, err := os.ReadFile(ws + "/same")
	must(t, err)
	must(t, os.WriteFile(ws+"/same2", same, 0o600))
	must(t, os.WriteFile(ws+"/big", content(9<<20), 0o644))
	must(t, os.WriteFile(ws+"/zeroes", make([]byte, 3<<20), 0o644))
	must(t, os.WriteFile(ws+"/empty", nil, 0o000))
	must(t, os.WriteFile(ws+"/setuid", []byte("x"), 0o755))
	must(t, unix.Chmod(ws+"/setuid", 0o6755))
	must(t, os.Mkdir(ws+"/sticky", 0o755))
	must(t, unix.Chmod(ws+"/sticky", 0o3777))
	for i, l := range []string{"link1", "link2", "small/link3"} {
		if i == 0 {
			must(t, os.WriteFile(ws+"/"+l, []byte("linked"), 0o644))
			continue
		}
		must(t, os.Link(ws+"/link1", ws+"/"+l))
	}
	sparse, err := os.Create(ws + "/sparse")
	must(t, err)
	must(t, sparse.Truncate(64<<20))
	_, err = sparse.WriteAt(content(100<<10), 20<<20)
	must(t, err)
	_, err = sparse.WriteAt([]byte("end"), 64<<20-3)
	must(t, err)
	must(t, sparse.Close())
	must(t, os.WriteFile(ws+"/hole", nil, 0o644))
	must(t, os.Truncate(ws+"/hole", 1<<40))
	must(t, os.Symlink("/host/canary", ws+"/symlink"))
	must(t, os.Symlink(strings.Repeat("long/", 700), ws+"/longlink"))
	must(t, unix.Mkfifo(ws+"/fifo", 0o622))
	must(t, unix.Link(ws+"/fifo", ws+"/fifo2"))
	must(t, unix.Mknod(ws+"/socket", unix.S_IFSOCK|0o755, 0))
	must(t, os.WriteFile(ws+"/new\nline", nil, 0o644))
	must(t, os.WriteFile(ws+"/bad\xff\xfeutf8", nil, 0o644))
	must(t, os.WriteFile(ws+"/.wh.x", nil, 0o644))
	must(t, os.WriteFile(ws+"/.wh..wh..opq", nil, 0o644))
	must(t, os.WriteFile(ws+"/"+strings.Repeat("n", 255), nil, 0o644))
	must(t, os.WriteFile(ws+"/-rf", nil, 0o644))
	must(t, os.MkdirAll(ws+"/"+strings.Repeat("deep/", 300), 0o755))
	must(t, os.WriteFile(ws+"/"+strings.Repeat("deep/", 300)+"f", []byte("deep"), 0o644))
	must(t, os.WriteFile(ws+"/a", nil, 0o644))
	must(t, os.Mkdir(ws+"/a.d", 0o755))
	must(t, os.WriteFile(ws+"/a.d/x", nil, 0o644))
	must(t, os.Mkdir(ws+"/a-", 0o755))
	must(t, os.WriteFile(ws+"/xattr", nil, 0o644))
	must(t, unix.Setxattr(ws+"/xattr", "user.nul", []byte("a\x00b"), 0))
	must(t, unix.Setxattr(ws+"/xattr", "user.empty", nil, 0))
	must(t, unix.Setxattr(ws+"/xattr", "user.overlay.whiteout", []byte("y"), 0))
	must(t, os.Mkdir(ws+"/fakeopaque", 0o755))
	must(t, unix.Setxattr(ws+"/fakeopaque", "user.overlay.opaque", []byte("y"), 0))
	must(t, unix.Setxattr(ws+"/fakeopaque", "user.overlay.redirect", []byte("/../../etc"), 0))
	must(t, os.WriteFile(ws+"/acl", nil, 0o640))
	must(t, unix.Setxattr(ws+"/acl", "system.posix_acl_access", acl(1, 6, ^uint32(0), 2, 4, idBase+1001, 4, 4, ^uint32(0), 8, 4, idBase+7, 16, 4, ^uint32(0), 32, 0, ^uint32(0)), 0))
	must(t, os.Mkdir(ws+"/aclinherit", 0o755))
	must(t, os.WriteFile(ws+"/aclinherit/child", nil, 0o644))
	must(t, unix.Setxattr(ws+"/aclinherit", "system.posix_acl_default", acl(1, 7, ^uint32(0), 2, 7, idBase+1001, 4, 5, ^uint32(0), 16, 7, ^uint32(0), 32, 5, ^uint32(0)), 0))
	must(t, os.WriteFile(ws+"/capable", nil, 0o755))
	caps := make([]byte, 20)
	binary.LittleEndian.PutUint32(caps, 0x02000001)
	binary.LittleEndian.PutUint32(caps[4:], 1<<10)
	must(t, unix.Setxattr(ws+"/capable", "security.capability", caps, 0))

	// The lower layer: a deleted file, a deleted directory, one deleted and made again, a copied-up one.
	must(t, os.Remove(inside(tree, "etc/services")))
	must(t, os.RemoveAll(inside(tree, "etc/ssl")))
	must(t, os.RemoveAll(inside(tree, "etc/alternatives")))
	must(t, os.Mkdir(inside(tree, "etc/alternatives"), 0o755))
	must(t, os.WriteFile(inside(tree, "etc/alternatives/mine"), []byte("mine"), 0o644))
	must(t, os.WriteFile(inside(tree, "etc/group"), []byte("changed"), 0o644))
	must(t, os.Mkdir(inside(tree, "opt"), 0o755))

	// What must not be kept.
	must(t, tree.WriteFile("/etc/hosts", []byte("synthesized"), 0o644, 0, 0))
	must(t, os.WriteFile(inside(tree, "tmp/left"), []byte("x"), 0o644))
	must(t, os.WriteFile(inside(tree, "run/left"), []byte("x"), 0o644))

	var walk fdwalk.Walk
	must(t, walk.Each(tree.upper, func(dir *os.File, name string, st *unix.Stat_t) error {
		path := walk.Path(name)
		if isWhiteout(st) || st.Uid >= idBase && !strings.HasPrefix(path, "workspace") {
			return nil
		}
		at := fdPath(tree.Root()) + "/" + path
		if !strings.HasPrefix(path, "workspace") {
			return os.Lchown(at, int(idBase), int(idBase))
		}
		if len(at) > 4000 {
			at = fdPath(dir) + "/" + name
		}
		var caps []byte
		if name == "capable" {
			caps = make([]byte, 20)
			_, err := unix.Lgetxattr(at, "security.capability", caps)
			must(t, err)
		}
		must(t, os.Lchown(at, int(idBase)+JobID, int(idBase)+JobID))
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			must(t, unix.Chmod(at, st.Mode&0o7777))
		}
		if caps != nil {
			must(t, unix.Setxattr(at, "security.capability", caps, 0))
		}
		return nil
	}))
	// Times last, and directories after what is in them.
	for path, sec := range map[string]int64{"workspace/symlink": 1_000_000_001, "workspace/big": -86_400, "workspace/fifo": 1, "workspace/small": 1 << 33} {
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, inside(tree, path), []unix.Timespec{{Sec: sec, Nsec: 123456789}, {Sec: sec, Nsec: 123456789}}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

func diffLines(t testing.TB, got, want []string) {
	t.Helper()
	for _, l := range want {
		if !slices.Contains(got, l) {
			t.Errorf("lost: %.400s", l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			t.Errorf("got:  %.400s", l)
		}
	}
}

func TestAWorkspaceIsTheSameOnAnotherNode(t *testing.T) {
	bucket := fileBucket(t)
	a := newManager(t, withBucket(bucket, "node-a"))
	b := newManager(t, withBucket(bucket, "node-b"))
	const baseA, baseB = testIDBase, testIDBase + 5*idRange

	tree := create(t, a, CreateOptions{Workspace: "ws", IDBase: baseA})
	makeEverything(t, tree, baseA)
	want := dump(t, tree.upper, baseA, a.skip)
	ctx := context.Background()
	id, stats, err := tree.Flush(ctx, FlushMeta{Job: "job-1"})
	must(t, err)
	t.Logf("flush %s: %+v", id, stats)
	if again := dump(t, tree.upper, baseA, a.skip); !slices.Equal(again, want) {
		t.Error("flush changed the tree")
		diffLines(t, again, want)
	}
	must(t, tree.Discard())

	// Ten hand-overs from node to node, each with a change.
	managers, bases, slots := []*Manager{b, a}, []uint32{baseB, baseA}, []uint32{5, 0}
	for i := range 10 {
		m, base := managers[i%2], bases[i%2]
		tree := create(t, m, CreateOptions{ID: fmt.Sprintf("job-%d", i), Workspace: "ws", Slot: slots[i%2], IDBase: base})
		got := dump(t, tree.upper, base, m.skip)
		if !slices.Equal(got, want) {
			t.Errorf("cycle %d: the tree differs", i)
			diffLines(t, got, want)
			return
		}
		if i == 0 {
			checkMerged(t, tree)
		}
		must(t, tree.WriteFile("changes", fmt.Appendf(nil, "cycle %d", i), 0o644, JobID, JobID))
		if i == 3 {
			must(t, os.RemoveAll(inside(tree, "workspace/small")))
		}
		if i == 4 {
			must(t, os.WriteFile(inside(tree, "workspace/small"), []byte("a file now"), 0o644))
			must(t, os.Lchown(inside(tree, "workspace/small"), int(base), int(base)))
		}
		want = dump(t, tree.upper, base, m.skip)
		_, stats, err := tree.Flush(ctx, FlushMeta{})
		must(t, err)
		if stats.BytesAdded > 200<<10 {
			t.Errorf("cycle %d: a small change stored %d bytes", i, stats.BytesAdded)
		}
		must(t, tree.Discard())
	}
	history, err := a.Snapshots(ctx, "ws", 100)
	if err != nil || len(history) != 11 || history[10].ID != id || history[10].Job != "job-1" {
		t.Errorf("history %v %v", history, err)
	}
	ws, err := b.Get(ctx, "ws")
	if err != nil || ws.Head != history[0].ID || ws.InUse || ws.Unflushed || ws.Files == 0 {
		t.Errorf("workspace %+v %v", ws, err)
	}
	must(t, b.Delete(ctx, "ws"))
	for info, err := range bucket.List(ctx, "sandboxes") {
		t.Errorf("left after delete: %v %v", info, err)
	}
	if _, err := a.Get(ctx, "ws"); !errors.Is(err, ErrNotFound) {
		t.Errorf("get after delete: %v", err)
	}
}

// checkMerged looks at a restored tree as the jail would.
func checkMerged(t *testing.T, tree *Tree) {
	t.Helper()
	for _, gone := range []string{"etc/services", "etc/ssl", "tmp/left", "run/left"} {
		if _, err := os.Lstat(inside(tree, gone)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is back: %v", gone, err)
		}
	}
	entries, err := os.ReadDir(inside(tree, "etc/alternatives"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "mine" {
		t.Errorf("deleted and made again: %v %v", entries, err)
	}
	if data, err := os.ReadFile(inside(tree, "etc/hosts")); err != nil || string(data) == "synthesized" {
		t.Errorf("a synthesized file was kept: %q %v", data, err)
	}
	// A directory that came from a snapshot can be renamed.
	must(t, os.Rename(inside(tree, "workspace/a.d"), inside(tree, "workspace/renamed")))
	must(t, os.Rename(inside(tree, "workspace/renamed"), inside(tree, "workspace/a.d")))
	var st unix.Stat_t
	must(t, unix.Lstat(inside(tree, "workspace"), &st))
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
