package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

// Reader reads one snapshot, verifying everything.
type Reader struct {
	Manifest *Manifest

	store  store.Store
	layout Layout
	codec  *codec
	packs  map[PackID]int64

	// The pack and the segment read last: entries come in the order in which they were written, so neighbours are mostly
	// in the same.
	packID  PackID
	pack    []byte
	segment *Segment
	plain   []byte
	need    map[PackID]int64 // bytes that Restore wants of each pack; nil: not known
}

// Open reads the manifest of a snapshot. Close the Reader.
func Open(ctx context.Context, s store.Store, l Layout, id string) (*Reader, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	r := &Reader{store: s, layout: l, codec: c, packs: map[PackID]int64{}}
	if err := r.open(ctx, id); err != nil {
		c.close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) open(ctx context.Context, id string) error {
	data, _, err := r.store.Get(ctx, r.layout.Snapshot(id), maxManifest)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: manifest is missing: %w", ErrCorrupt, err)
	}
	if err != nil {
		return err
	}
	if r.Manifest, err = decodeManifest(r.codec, id, data, r.layout.Workspace, r.layout.DataSet); err != nil {
		return err
	}
	for _, p := range r.Manifest.Packs {
		var pack PackID
		if !unhex(pack[:], p.ID) || p.Size < int64(len(packMagic)) || p.Size > maxPack {
			return fmt.Errorf("%w: pack reference %.60q of %d bytes", ErrCorrupt, p.ID, p.Size)
		}
		r.packs[pack] = p.Size
	}
	return nil
}

// Close releases memory.
func (r *Reader) Close() { r.codec.close() }

// node reads a tree node.
func (r *Reader) node(ctx context.Context, i int) (*Segment, []*Entry, []*Segment, error) {
	ref := &r.Manifest.Nodes[i]
	place, err := ref.segment()
	if err != nil {
		return nil, nil, nil, err
	}
	plain, err := r.read(ctx, place)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("tree node %d: %w", i, err)
	}
	entries, segments, err := decodeNode(plain)
	if err != nil {
		return nil, nil, nil, err
	}
	n := int64(0)
	for _, e := range entries {
		if e.Kind != More {
			n++
		}
	}
	if n != ref.Entries || string(ref.First) != entries[0].Path {
		return nil, nil, nil, fmt.Errorf("%w: tree node %d is not what the manifest says", ErrCorrupt, i)
	}
	return place, entries, segments, nil
}

// Entries calls visit for every entry of the tree, in order and checked. Of one file, More entries follow.
func (r *Reader) Entries(ctx context.Context, visit func(*Entry) error) error {
	var o order
	var entries, files int64
	for i := range r.Manifest.Nodes {
		_, list, _, err := r.node(ctx, i)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := o.next(e); err != nil {
				return err
			}
			if e.Kind != More {
				entries++
			}
			if e.Kind == File {
				files++
			}
			if err := visit(e); err != nil {
				return err
			}
		}
	}
	if entries != r.Manifest.Entries || files != r.Manifest.Files {
		return fmt.Errorf("%w: %d entries and %d files, the manifest says %d and %d", ErrCorrupt, entries, files, r.Manifest.Entries, r.Manifest.Files)
	}
	return nil
}

// read returns the plaintext of a segment. It is valid until the next read.
func (r *Reader) read(ctx context.Context, s *Segment) ([]byte, error) {
	if r.segment != nil && *r.segment == *s {
		return r.plain, nil
	}
	packed, err := r.fetch(ctx, s)
	if err != nil {
		return nil, err
	}
	plain, err := r.codec.open(s, packed)
	if err != nil {
		return nil, err
	}
	r.segment, r.plain = s, plain
	return plain, nil
}

// fetch gets a segment's packed bytes: out of the whole pack when most of it is wanted, else alone.
func (r *Reader) fetch(ctx context.Context, s *Segment) ([]byte, error) {
	size, ok := r.packs[s.Pack]
	if !ok || int64(s.Offset)+int64(s.Packed) > size {
		return nil, fmt.Errorf("%w: segment %s lies outside of the listed packs", ErrCorrupt, s.ID)
	}
	if s.Pack != r.packID || r.pack == nil {
		if r.need[s.Pack] < size/2 && size > 256<<10 {
			data, err := r.store.GetRange(ctx, r.layout.Pack(s.Pack), int64(s.Offset), int64(s.Packed))
			return data, missingPack(err)
		}
		data, _, err := r.store.Get(ctx, r.layout.Pack(s.Pack), size)
		if err != nil {
			return nil, missingPack(err)
		}
		if int64(len(data)) != size {
			return nil, fmt.Errorf("%w: pack %s has %d bytes, not %d", ErrCorrupt, s.Pack, len(data), size)
		}
		r.packID, r.pack = s.Pack, data
	}
	return r.pack[s.Offset:][:s.Packed], nil
}

func missingPack(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: a pack is missing: %w", ErrCorrupt, err)
	}
	return err
}
