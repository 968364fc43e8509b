package cowfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

func TestAWorkspaceIsTheSameOnAnotherNode(t *testing.T) {
	bucket := fileBucket(t)
	root := nodeRoot(t)
	a := newManager(t, func(o *Options) { o.Bucket, o.Node, o.NodeRoot = bucket, "node-a", root })
	b := newManager(t, func(o *Options) { o.Bucket, o.Node, o.NodeRoot = bucket, "node-b", root })
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

// nodeRoot makes up a node that has something to delete.
func nodeRoot(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range []string{"usr", "etc/ssl/certs", "etc/alternatives"} {
		must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	for _, f := range []string{"etc/services", "etc/ssl/certs/a.pem", "etc/mime.types"} {
		must(t, os.WriteFile(filepath.Join(root, f), []byte(f), 0o644))
	}
	must(t, os.Symlink("/usr/bin/vi", filepath.Join(root, "etc/alternatives/editor")))
	return root
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
			var data []byte
			if st.Blocks > 0 { // of a file that is all hole, the size says enough
				var err error
				data, err = os.ReadFile(at)
				must(t, err)
			}
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
	must(t, os.WriteFile(ws+"/big", content(5<<20), 0o644))
	must(t, os.WriteFile(ws+"/zeroes", make([]byte, 1<<20), 0o644))
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
	must(t, sparse.Truncate(6<<20))
	_, err = sparse.WriteAt(content(100<<10), 2<<20)
	must(t, err)
	_, err = sparse.WriteAt([]byte("end"), 6<<20-3)
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
