package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

var testLayout = Layout{Prefix: "p", Workspace: "ws", DataSet: "d-x"}

const testIDBase = 0x70000000

// forge stores a snapshot with whatever it is given: what an attacker who may write the bucket can do.
func forge(t testing.TB, s store.Store, entries []*Entry, change func(*Manifest)) string {
	t.Helper()
	c, err := newCodec()
	must(t, err)
	defer c.close()
	p := newPacker(context.Background(), s, testLayout, c)
	content, err := p.add([]byte("content"))
	must(t, err)
	files, count := int64(0), int64(0)
	for _, e := range entries {
		for i := range e.Extents {
			if e.Extents[i].Segment == nil {
				e.Extents[i].Segment = content
			}
		}
		if e.Kind == File {
			files++
		}
		if e.Kind != More {
			count++
		}
	}
	node, err := p.add(encodeNode(entries))
	must(t, err)
	must(t, p.flush())
	must(t, p.wait())
	m := Manifest{
		Workspace: "ws", DataSet: "d-x", Sequence: 1, Entries: count, Files: files,
		Nodes: []NodeRef{{
			First: []byte(entries[0].Path), Entries: count,
			ID: node.ID.String(), Pack: node.Pack.String(), Offset: node.Offset, Packed: node.Packed, Size: node.Size,
		}},
	}
	for id, size := range p.sizes {
		m.Packs = append(m.Packs, PackRef{id.String(), size})
	}
	version := manifestVersion
	if change != nil {
		change(&m)
		if m.Version != 0 {
			version = m.Version
		}
	}
	id, data, err := m.encode(c)
	must(t, err)
	if version != manifestVersion {
		plain, err := c.expand(data, maxManifest)
		must(t, err)
		data = c.compress([]byte(strings.Replace(string(plain), `"version":1`, `"version":2`, 1)))
		sum := blake3.Sum256(data)
		id = "00000001-" + Hash(sum).String()[:32]
	}
	_, err = s.Put(context.Background(), testLayout.Snapshot(id), data)
	must(t, err)
	return id
}

func dir(path string) *Entry  { return &Entry{Path: path, Kind: Dir, Mode: 0o755} }
func file(path string) *Entry { return &Entry{Path: path, Kind: File, Mode: 0o644} }
func symlink(path, target string) *Entry {
	return &Entry{Path: path, Kind: Symlink, Mode: 0o777, Target: target}
}
func hardlink(path, target string) *Entry { return &Entry{Path: path, Kind: Hardlink, Target: target} }

func withXattr(e *Entry, name, value string) *Entry {
	e.Xattrs = append(e.Xattrs, Xattr{name, []byte(value)})
	return e
}

func withData(e *Entry, size int64, x ...Extent) *Entry {
	e.Size, e.Extents = size, x
	return e
}

func TestHostileSnapshotsAreRefusedByName(t *testing.T) {
	hosttest.Root(t)
	tree := func(entries ...*Entry) []*Entry { return append([]*Entry{dir("")}, entries...) }
	aclOf := func(tag uint16, id uint32) string {
		b := binary.LittleEndian.AppendUint32(nil, 2)
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, 7)
		return string(binary.LittleEndian.AppendUint32(b, id))
	}
	for _, test := range []struct {
		name    string
		entries []*Entry
		change  func(*Manifest)
		want    error
	}{
		{"parent directory", tree(file("../x")), nil, ErrCorrupt},
		{"parent directory inside", tree(dir("a"), file("a/../../x")), nil, ErrCorrupt},
		{"absolute", tree(file("/etc/x")), nil, ErrCorrupt},
		{"dot", tree(file(".")), nil, ErrCorrupt},
		{"empty component", tree(dir("a"), file("a//x")), nil, ErrCorrupt},
		{"trailing slash", tree(dir("a/")), nil, ErrCorrupt},
		{"NUL in a name", tree(file("a\x00b")), nil, ErrCorrupt},
		{"name too long", tree(file(strings.Repeat("n", 256))), nil, ErrCorrupt},
		{"too deep", tree(dir(strings.Repeat("d/", 2100) + "d")), nil, ErrCorrupt},
		{"through a link", tree(symlink("a", "/etc"), file("a/x")), nil, ErrCorrupt},
		{"through a link that replaces a directory", tree(dir("a"), symlink("a", "/etc"), file("a/x")), nil, ErrCorrupt},
		{"through a file", tree(file("a"), file("a/x")), nil, ErrCorrupt},
		{"without its directory", tree(file("a/x")), nil, ErrCorrupt},
		{"back into a directory that was left", tree(dir("a"), dir("b"), file("a/x")), nil, ErrCorrupt},
		{"twice", tree(file("a"), file("a")), nil, ErrCorrupt},
		{"file, then directory", tree(file("a"), dir("a")), nil, ErrCorrupt},
		{"out of order", tree(file("b"), file("a")), nil, ErrCorrupt},
		{"root missing", []*Entry{file("a")}, nil, ErrCorrupt},
		{"root twice", []*Entry{dir(""), dir("")}, nil, ErrCorrupt},
		{"root is a link", []*Entry{symlink("", "/etc")}, nil, ErrCorrupt},
		{"hard link out of the tree", tree(hardlink("a", "../../canary")), nil, ErrCorrupt},
		{"hard link to an absolute path", tree(hardlink("a", "/etc/passwd")), nil, ErrCorrupt},
		{"hard link to nothing", tree(hardlink("b", "a")), nil, ErrCorrupt},
		{"hard link to a later file", tree(hardlink("a", "b"), file("b")), nil, ErrCorrupt},
		{"hard link to itself", tree(hardlink("a", "a")), nil, ErrCorrupt},
		{"hard link to a directory", tree(dir("a"), hardlink("b", "a")), nil, ErrCorrupt},
		{"hard link to the root", tree(hardlink("b", "")), nil, ErrCorrupt},
		{"hard link to a whiteout", tree(&Entry{Path: "a", Kind: Whiteout}, hardlink("b", "a")), nil, ErrCorrupt},
		{"hard link through a link", tree(symlink("a", "/etc"), hardlink("b", "a/passwd")), nil, ErrCorrupt},
		{"a device", tree(&Entry{Path: "a", Kind: 9, Mode: 0o666}), nil, ErrCorrupt},
		{"type bits in the mode", tree(&Entry{Path: "a", Kind: File, Mode: 0o100644}), nil, ErrCorrupt},
		{"an owner who is none of the jail's", tree(&Entry{Path: "a", Kind: File, UID: 65536}), nil, ErrCorrupt},
		{"owner minus one", tree(&Entry{Path: "a", Kind: File, GID: 1<<32 - 1}), nil, ErrCorrupt},
		{"nanoseconds", tree(&Entry{Path: "a", Kind: File, MtimeNsec: 1e9}), nil, ErrCorrupt},
		{"opaque file", tree(&Entry{Path: "a", Kind: File, Opaque: true}), nil, ErrCorrupt},
		{"link without target", tree(symlink("a", "")), nil, ErrCorrupt},
		{"link target with NUL", tree(symlink("a", "a\x00b")), nil, ErrCorrupt},
		{"overlay redirect", tree(withXattr(dir("a"), "trusted.overlay.redirect", "/etc")), nil, ErrCorrupt},
		{"overlay metacopy", tree(withXattr(file("a"), "trusted.overlay.metacopy", "")), nil, ErrCorrupt},
		{"opaque as an attribute", tree(withXattr(dir("a"), "trusted.overlay.opaque", "y")), nil, ErrCorrupt},
		{"security label", tree(withXattr(file("a"), "security.selinux", "x")), nil, ErrCorrupt},
		{"file capability for another root", tree(withXattr(file("a"), "security.capability", "\x01\x00\x00\x03"+strings.Repeat("\x00", 16)+"\xff\xff\xff\xff")), nil, ErrCorrupt},
		{"malformed file capability", tree(withXattr(file("a"), "security.capability", "\x01")), nil, ErrCorrupt},
		{"ACL for a host user", tree(withXattr(file("a"), "system.posix_acl_access", aclOf(2, 70000))), nil, ErrCorrupt},
		{"malformed ACL", tree(withXattr(file("a"), "system.posix_acl_access", "xxxxx")), nil, ErrCorrupt},
		{"user attribute on a link", tree(withXattr(symlink("a", "b"), "user.x", "y")), nil, ErrCorrupt},
		{"data beyond the end", tree(withData(file("a"), 3, Extent{Length: 7})), nil, ErrCorrupt},
		{"data beyond the segment", tree(withData(file("a"), 100, Extent{Length: 8})), nil, ErrCorrupt},
		{"data start beyond the segment", tree(withData(file("a"), 100, Extent{Length: 1, Start: 8})), nil, ErrCorrupt},
		{"extent without length", tree(withData(file("a"), 100, Extent{})), nil, ErrCorrupt},
		{"overlapping extents", tree(withData(file("a"), 100, Extent{Length: 7}, Extent{Offset: 3, Length: 7})), nil, ErrCorrupt},
		{"continuation of nothing", tree(&Entry{Path: "a", Kind: More, Extents: []Extent{{Length: 7}}}), nil, ErrCorrupt},
		{"continuation of another file", tree(file("a"), &Entry{Path: "b", Kind: More, Extents: []Extent{{Length: 7}}}), nil, ErrCorrupt},
		{"continuation beyond the end", tree(file("a"), &Entry{Path: "a", Kind: More, Extents: []Extent{{Length: 7}}}), nil, ErrCorrupt},
		{"file of an exbibyte", tree(withData(file("a"), 1<<61)), nil, ErrCorrupt},
		{"bigger than allowed", tree(withData(file("a"), 7, Extent{Length: 7}), withData(file("b"), 7, Extent{Length: 7})), nil, ErrTooLarge},
		{"more entries than allowed", tree(file("a"), file("b"), file("c"), file("d"), file("e"), file("f")), nil, ErrTooLarge},
		{"more entries than it says", tree(file("a"), file("b"), file("c"), file("d"), file("e"), file("f")), func(m *Manifest) { m.Entries = 1; m.Nodes[0].Entries = 1 }, ErrCorrupt},
		{"count is a lie", tree(file("a")), func(m *Manifest) { m.Entries = 3 }, ErrCorrupt},
		{"negative counts", tree(file("a")), func(m *Manifest) { m.Bytes = -1 }, ErrCorrupt},
		{"another workspace's", tree(file("a")), func(m *Manifest) { m.Workspace = "other" }, ErrCorrupt},
		{"another incarnation's", tree(file("a")), func(m *Manifest) { m.DataSet = "d-y" }, ErrCorrupt},
		{"unknown version", tree(file("a")), func(m *Manifest) { m.Version = 2 }, ErrVersion},
		{"no nodes", tree(file("a")), func(m *Manifest) { m.Nodes = nil }, ErrCorrupt},
		{"node twice", tree(file("a")), func(m *Manifest) { m.Nodes = append(m.Nodes, m.Nodes[0]); m.Entries, m.Files = 4, 2 }, ErrCorrupt},
		{"pack not listed", tree(file("a")), func(m *Manifest) { m.Packs = nil }, ErrCorrupt},
		{"pack with another size", tree(file("a")), func(m *Manifest) { m.Packs[0].Size-- }, nil},
		{"pack elsewhere", tree(file("a")), func(m *Manifest) { m.Packs[0].ID = "../../../etc/passwd" }, ErrCorrupt},
		{"huge pack", tree(file("a")), func(m *Manifest) { m.Packs[0].Size = 1 << 40 }, ErrCorrupt},
		{"node outside of the pack", tree(file("a")), func(m *Manifest) { m.Nodes[0].Offset = 1 << 20 }, ErrCorrupt},
		{"node larger than a node", tree(file("a")), func(m *Manifest) { m.Nodes[0].Size = 1 << 30 }, ErrCorrupt},
		{"node that expands further than it says", tree(file("a")), func(m *Manifest) { m.Nodes[0].Size = m.Nodes[0].Packed + 1 }, nil},
		{"node id", tree(file("a")), func(m *Manifest) { m.Nodes[0].ID = strings.Repeat("0", 64) }, ErrCorrupt},
		{"bigger by its own account", tree(file("a")), func(m *Manifest) { m.Bytes = 1 << 50 }, ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s store.Mem
			parent := t.TempDir()
			must(t, os.WriteFile(filepath.Join(parent, "canary"), []byte("canary"), 0o644))
			root := mkdir(t, filepath.Join(parent, "root"))
			id := forge(t, &s, test.entries, test.change)
			err := restoreAs(&s, id, root, RestoreOptions{IDBase: testIDBase, MaxEntries: 6, MaxBytes: 10})
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) != 2 {
				t.Errorf("the directory above holds %v %v", left, err)
			}
		})
	}
}

func TestDamagedObjectsAreNoticed(t *testing.T) {
	hosttest.Root(t)
	entries := func() []*Entry {
		return []*Entry{dir(""), withData(file("a"), 7, Extent{Length: 7})}
	}
	ctx := context.Background()
	for name, damage := range map[string]func(s *store.Mem, key string, data []byte){
		"a bit flipped": func(s *store.Mem, key string, data []byte) {
			data[len(data)/2] ^= 1
			s.Put(ctx, key, data)
		},
		"cut short":  func(s *store.Mem, key string, data []byte) { s.Put(ctx, key, data[:len(data)-1]) },
		"empty":      func(s *store.Mem, key string, _ []byte) { s.Put(ctx, key, nil) },
		"missing":    func(s *store.Mem, key string, _ []byte) { s.Delete(ctx, key) },
		"longer":     func(s *store.Mem, key string, data []byte) { s.Put(ctx, key, append(data, 0)) },
		"all zeroes": func(s *store.Mem, key string, data []byte) { s.Put(ctx, key, make([]byte, len(data))) },
	} {
		for _, part := range []string{"packs", "snapshots"} {
			t.Run(name+" "+part, func(t *testing.T) {
				var s store.Mem
				id := forge(t, &s, entries(), nil)
				for info, err := range s.List(ctx, testLayout.Dir()+"/"+part) {
					must(t, err)
					data, _, err := s.Get(ctx, info.Key, 1<<20)
					must(t, err)
					damage(&s, info.Key, data)
				}
				root := mkdir(t, filepath.Join(t.TempDir(), "root"))
				err := restoreAs(&s, id, root, RestoreOptions{IDBase: testIDBase, MaxEntries: 10, MaxBytes: 10})
				if err == nil {
					t.Error("restored")
				}
			})
		}
	}
}

// TestABombIsRefusedBeforeItExpands gives a segment that says it is small and expands to a gibibyte.
func TestABombIsRefusedBeforeItExpands(t *testing.T) {
	c, err := newCodec()
	must(t, err)
	defer c.close()
	bomb := c.compress(make([]byte, 32<<20))
	plain, err := c.open(&Segment{Packed: uint32(len(bomb)), Size: 8 << 20}, bomb)
	if !errors.Is(err, ErrTooLarge) || plain != nil {
		t.Errorf("%d bytes, %v", len(plain), err)
	}
	// The header lies: it says 100 bytes.
	lying := append([]byte{}, c.compress(make([]byte, 100))[:6]...)
	lying = append(lying, bomb[9:]...)
	if plain, err := c.expand(lying, 1<<20); err == nil || len(plain) > 1<<20 {
		t.Errorf("%d bytes, %v", len(plain), err)
	}
}

func restoreAs(s store.Store, id string, root *os.File, o RestoreOptions) error {
	r, err := Open(context.Background(), s, testLayout, id)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.Restore(context.Background(), root, o)
	return err
}

func mkdir(t testing.TB, path string) *os.File {
	t.Helper()
	must(t, os.Mkdir(path, 0o755))
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
