package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/zeebo/blake3"
)

// A tree is a list of entries, cut into nodes. Where a node ends depends on the paths of its entries alone, so that a
// change rewrites the node it is in and no other.
const (
	nodeVersion = 1
	nodeMask    = 0xff      // one path in 256 ends a node
	nodeSoft    = 512 << 10 // bytes after which any path ends it
	maxNode     = 4 << 20
	maxExtents  = 4096 // of one entry; more follow in More entries
)

// endsNode says whether the path of an entry ends its node.
func endsNode(path string) bool {
	sum := blake3.Sum256([]byte(path))
	return sum[0]&nodeMask == 0
}

// encodeNode writes the entries of one node. Every extent's segment must be final.
func encodeNode(entries []*Entry) []byte {
	var (
		packs    []PackID
		packAt   = map[PackID]uint64{}
		segments []*Segment
		segAt    = map[*Segment]uint64{}
	)
	for _, e := range entries {
		for _, x := range e.Extents {
			if _, ok := segAt[x.Segment]; ok {
				continue
			}
			segAt[x.Segment] = uint64(len(segments))
			segments = append(segments, x.Segment)
			if _, ok := packAt[x.Segment.Pack]; !ok {
				packAt[x.Segment.Pack] = uint64(len(packs))
				packs = append(packs, x.Segment.Pack)
			}
		}
	}
	b := []byte{nodeVersion}
	b = binary.AppendUvarint(b, uint64(len(packs)))
	for _, p := range packs {
		b = append(b, p[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(segments)))
	for _, s := range segments {
		b = binary.AppendUvarint(b, packAt[s.Pack])
		b = append(b, s.ID[:]...)
		b = binary.AppendUvarint(b, uint64(s.Offset))
		b = binary.AppendUvarint(b, uint64(s.Packed))
		b = binary.AppendUvarint(b, uint64(s.Size))
	}
	b = binary.AppendUvarint(b, uint64(len(entries)))
	last := ""
	for _, e := range entries {
		b = appendEntry(b, e, last, segAt)
		last = e.Path
	}
	return b
}

const (
	flagOpaque = 0x40
	flagHash   = 0x80
	kindMask   = 0x3f
)

func appendEntry(b []byte, e *Entry, last string, segAt map[*Segment]uint64) []byte {
	head := byte(e.Kind)
	if e.Opaque {
		head |= flagOpaque
	}
	if e.Hash != nil {
		head |= flagHash
	}
	b = append(b, head)
	shared := commonPrefix(last, e.Path)
	b = binary.AppendUvarint(b, uint64(shared))
	b = appendString(b, e.Path[shared:])
	if e.Kind != More && e.Kind != Hardlink && e.Kind != Whiteout {
		b = binary.AppendUvarint(b, uint64(e.Mode))
		b = binary.AppendUvarint(b, uint64(e.UID))
		b = binary.AppendUvarint(b, uint64(e.GID))
		b = binary.AppendVarint(b, e.MtimeSec)
		b = binary.AppendUvarint(b, uint64(e.MtimeNsec))
		b = binary.AppendUvarint(b, uint64(len(e.Xattrs)))
		for _, x := range e.Xattrs {
			b = appendString(b, x.Name)
			b = appendString(b, string(x.Value))
		}
	}
	switch e.Kind {
	case Symlink, Hardlink:
		return appendString(b, e.Target)
	case File:
		b = binary.AppendUvarint(b, uint64(e.Size))
		if e.Hash != nil {
			b = append(b, e.Hash[:]...)
		}
	case More:
	default:
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(e.Extents)))
	end := int64(0)
	for _, x := range e.Extents {
		// Of More entries the first gap counts from the file's beginning.
		b = binary.AppendUvarint(b, uint64(x.Offset-end))
		b = binary.AppendUvarint(b, uint64(x.Length))
		b = binary.AppendUvarint(b, segAt[x.Segment])
		b = binary.AppendUvarint(b, uint64(x.Start))
		end = x.Offset + x.Length
	}
	return b
}

// decodeNode reads what encodeNode wrote, and checks each entry by itself. Memory is bounded by the length of b.
func decodeNode(b []byte) ([]*Entry, []*Segment, error) {
	d := &decoder{b: b}
	if v := d.byte(); v != nodeVersion && d.err == nil {
		return nil, nil, fmt.Errorf("%w: tree node version %d", ErrVersion, v)
	}
	packs := make([]PackID, d.count(len(PackID{})))
	for i := range packs {
		copy(packs[i][:], d.take(len(PackID{})))
	}
	segments := make([]*Segment, d.count(len(Hash{})+4))
	for i := range segments {
		s := &Segment{}
		if at := d.uvarint(); at < uint64(len(packs)) {
			s.Pack = packs[at]
		} else {
			d.fail("pack index")
		}
		copy(s.ID[:], d.take(len(Hash{})))
		s.Offset, s.Packed, s.Size = d.uint32(), d.uint32(), d.uint32()
		if err := s.check(); err != nil && d.err == nil {
			d.err = err
		}
		segments[i] = s
	}
	const smallest = 4
	entries := make([]*Entry, d.count(smallest))
	last := ""
	for i := range entries {
		e := d.entry(last, segments)
		if d.err != nil {
			return nil, nil, d.err
		}
		if err := e.check(); err != nil {
			return nil, nil, err
		}
		entries[i], last = e, e.Path
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail("bytes after the last entry")
	}
	if d.err == nil && len(entries) == 0 {
		d.fail("no entries")
	}
	if d.err != nil {
		return nil, nil, d.err
	}
	return entries, segments, nil
}

func (d *decoder) entry(last string, segments []*Segment) *Entry {
	head := d.byte()
	e := &Entry{Kind: Kind(head & kindMask), Opaque: head&flagOpaque != 0}
	if head&flagHash != 0 && e.Kind != File {
		d.fail("content hash, but no file")
	}
	shared := d.uvarint()
	if shared > uint64(len(last)) {
		d.fail("path prefix")
		return e
	}
	suffix := d.bytes(maxPath)
	if int(shared)+len(suffix) > maxPath {
		d.fail("path too long")
		return e
	}
	e.Path = last[:shared] + string(suffix)
	if e.Kind != More && e.Kind != Hardlink && e.Kind != Whiteout {
		e.Mode, e.UID, e.GID = d.uint32(), d.uint32(), d.uint32()
		e.MtimeSec, e.MtimeNsec = d.varint(), d.uint32()
		e.Xattrs = make([]Xattr, d.count(2))
		for i := range e.Xattrs {
			e.Xattrs[i] = Xattr{Name: string(d.bytes(maxName)), Value: bytes.Clone(d.bytes(maxXattr))}
		}
	}
	switch e.Kind {
	case Symlink, Hardlink:
		e.Target = string(d.bytes(maxPath))
	case File:
		if size := d.uvarint(); size > maxFileSize {
			d.fail("file size")
		} else {
			e.Size = int64(size)
		}
		if head&flagHash != 0 {
			e.Hash = new(Hash)
			copy(e.Hash[:], d.take(len(Hash{})))
		}
		d.extents(e, segments)
	case More:
		d.extents(e, segments)
	}
	return e
}

func (d *decoder) extents(e *Entry, segments []*Segment) {
	n := d.count(4)
	if n > maxExtents || e.Kind == More && n == 0 {
		d.fail("extents")
		return
	}
	end := uint64(0)
	e.Extents = make([]Extent, n)
	for i := range e.Extents {
		gap, length, at, start := d.uvarint(), d.uvarint(), d.uvarint(), d.uvarint()
		if d.err != nil {
			return
		}
		if at >= uint64(len(segments)) {
			d.fail("segment index")
			return
		}
		s := segments[at]
		if gap > maxFileSize || length == 0 || start > uint64(s.Size) || length > uint64(s.Size)-start || end+gap+length > maxFileSize {
			d.fail("extent")
			return
		}
		e.Extents[i] = Extent{Offset: int64(end + gap), Length: int64(length), Segment: s, Start: uint32(start)}
		end += gap + length
	}
	if e.Kind == File && end > uint64(e.Size) {
		d.fail("extent beyond the end of the file")
	}
}

// decoder reads a node. The first failure sticks.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: tree node: bad %s", ErrCorrupt, what)
	}
	d.b = nil
}

// take returns the next n bytes, or zeroes after a failure.
func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail("length")
		return make([]byte, n)
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) byte() byte { return d.take(1)[0] }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > math.MaxUint32 {
		d.fail("number")
		return 0
	}
	return uint32(v)
}

// count reads the length of a list whose items take at least each bytes: memory is not allocated for more than can come.
func (d *decoder) count(each int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/each) {
		d.fail("count")
		return 0
	}
	return int(n)
}

func (d *decoder) bytes(limit int) []byte {
	n := d.uvarint()
	if n > uint64(limit) || n > uint64(len(d.b)) {
		d.fail("length")
		return nil
	}
	return d.take(int(n))
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
