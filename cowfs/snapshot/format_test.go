package snapshot

import (
	"encoding/hex"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/blake3"
)

func sampleEntries() []*Entry {
	s1 := &Segment{ID: Hash{1}, Pack: PackID{9}, Offset: 8, Packed: 100, Size: 200}
	s2 := &Segment{ID: Hash{2}, Pack: PackID{8}, Offset: 108, Packed: 7, Size: 7}
	h := Hash{3}
	return []*Entry{
		{Path: "", Kind: Dir, Mode: 0o755, MtimeSec: -1, MtimeNsec: 999_999_999, Xattrs: []Xattr{}},
		{Path: "a", Kind: Dir, Mode: 0o3777, Opaque: true, Xattrs: []Xattr{{"user.x", []byte("a\x00b")}}},
		{Path: "a/big", Kind: File, Mode: 0o4755, UID: 1000, GID: 65535, Size: 1 << 40, Xattrs: []Xattr{}, Extents: []Extent{
			{Offset: 5, Length: 200, Segment: s1}, {Offset: 1 << 30, Length: 3, Segment: s2, Start: 4}}},
		{Path: "a/big", Kind: More, Extents: []Extent{{Offset: 1 << 31, Length: 7, Segment: s2}}},
		{Path: "a/empty", Kind: File, Xattrs: []Xattr{}, Extents: []Extent{}},
		{Path: "a/hard", Kind: Hardlink, Target: "a/big"},
		{Path: "bad\xff\n", Kind: File, Size: 3, Hash: &h, Xattrs: []Xattr{}, Extents: []Extent{{Length: 3, Segment: s1, Start: 197}}},
		{Path: "f", Kind: Fifo, Xattrs: []Xattr{}},
		{Path: "l", Kind: Symlink, Mode: 0o777, Target: "/x\xff", Xattrs: []Xattr{}},
		{Path: "s", Kind: Socket, Xattrs: []Xattr{}},
		{Path: "w", Kind: Whiteout},
	}
}

func TestNodeRoundTrip(t *testing.T) {
	want := sampleEntries()
	got, segments, err := decodeNode(encodeNode(want))
	must(t, err)
	if len(segments) != 2 || !reflect.DeepEqual(got, want) {
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("got %+v\nwant %+v", got[i], want[i])
			}
		}
	}
	var o order
	for _, e := range got {
		must(t, o.next(e))
	}
}

// TestNodeGolden holds the format still: a change of these bytes is a change of the version.
func TestNodeGolden(t *testing.T) {
	const golden = "fb2fb2b0"
	sum := blake3.Sum256(encodeNode(sampleEntries()))
	if got := hex.EncodeToString(sum[:4]); got != golden {
		t.Errorf("encoding has the hash %s, want %s", got, golden)
	}
}

func TestManifestRoundTrip(t *testing.T) {
	c, err := newCodec()
	must(t, err)
	defer c.close()
	m := Manifest{
		Workspace: "ws", DataSet: "d-x", Sequence: 7, Parent: "00000006-" + strings.Repeat("a", 32),
		CreatedAt: time.Unix(1, 5).UTC(), Node: "n", Job: "j", Base: "host", Entries: 1, Nodes: []NodeRef{{First: []byte("\xff"), Entries: 1}}, Packs: []PackRef{},
	}
	id, data, err := m.encode(c)
	must(t, err)
	if !strings.HasPrefix(id, "00000007-") {
		t.Errorf("id %s", id)
	}
	got, err := decodeManifest(c, id, data, "ws", "d-x")
	must(t, err)
	if !reflect.DeepEqual(*got, m) {
		t.Errorf("got %+v, want %+v", got, m)
	}
	if _, err := decodeManifest(c, id, append(data, 0), "ws", "d-x"); err == nil {
		t.Error("other bytes were accepted under the same id")
	}
}

func TestPathLessIsTheOrderOfAWalk(t *testing.T) {
	want := []string{"", "a", "a/b", "a/b/c", "a/b-", "a-", "a.d", "a.d/x", "a0", "b"}
	got := slices.Clone(want)
	slices.Reverse(got)
	sort.Slice(got, func(i, j int) bool { return pathLess(got[i], got[j]) })
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if pathLess("a", "a") {
		t.Error("a path is less than itself")
	}
}

func FuzzDecodeNode(f *testing.F) {
	f.Add(encodeNode(sampleEntries()))
	f.Add([]byte{nodeVersion, 0, 0, 1, byte(Dir), 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, _, err := decodeNode(data)
		if err != nil {
			return
		}
		again, _, err := decodeNode(encodeNode(entries))
		if err != nil || len(again) != len(entries) {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		var o order
		for _, e := range entries {
			if o.next(e) != nil {
				return
			}
			if strings.HasPrefix(e.Path, "/") || slices.Contains(strings.Split(e.Path, "/"), "..") {
				t.Fatalf("path %q was accepted", e.Path)
			}
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	c, err := newCodec()
	must(f, err)
	f.Cleanup(c.close)
	m := Manifest{Workspace: "ws", DataSet: "d-x", Sequence: 1, Entries: 1, Nodes: []NodeRef{{}}}
	_, data, err := m.encode(c)
	must(f, err)
	f.Add(data, "00000001-")
	f.Fuzz(func(t *testing.T, data []byte, prefix string) {
		sum := blake3.Sum256(data)
		m, err := decodeManifest(c, prefix+hex.EncodeToString(sum[:16]), data, "ws", "d-x")
		if err != nil {
			return
		}
		for i := range m.Nodes {
			if s, err := m.Nodes[i].segment(); err == nil && s.check() != nil {
				t.Fatal("a bad segment was accepted")
			}
		}
	})
}

func TestExtentsBeyondOneEntryContinue(t *testing.T) {
	w := &Writer{}
	e := &Entry{Path: "f", Kind: File}
	s := &Segment{Size: 1}
	for i := range 2*maxExtents + 5 {
		e.Extents = append(e.Extents, Extent{Offset: int64(2 * i), Length: 1, Segment: s})
	}
	e.Size = int64(4*maxExtents + 10)
	w.split(e)
	if len(w.node) != 3 || w.node[1].Kind != More || w.node[2].Kind != More || len(w.node[2].Extents) != 5 {
		t.Fatalf("%d entries", len(w.node))
	}
}
