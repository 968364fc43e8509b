package snapshot

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

// packMagic begins every pack, so that a stray object can be told.
const packMagic = "tbpack1\n"

// packer gathers segments into packs and uploads them beside the caller's reading, two at a time.
type packer struct {
	store  store.Store
	layout Layout
	codec  *codec

	known map[Hash]*Segment // of the parent snapshot and of this one
	sizes map[PackID]int64  // packs that were uploaded

	id  PackID
	buf []byte

	uploads *errgroup.Group
	ctx     context.Context // of the uploads; ends at the first failure
	added   int64
}

func newPacker(ctx context.Context, s store.Store, l Layout, c *codec) *packer {
	p := &packer{store: s, layout: l, codec: c, known: map[Hash]*Segment{}, sizes: map[PackID]int64{}}
	p.uploads, p.ctx = errgroup.WithContext(ctx)
	p.uploads.SetLimit(2)
	return p
}

// add returns where plain lies, after putting it into the pack when no earlier segment holds the same bytes.
func (p *packer) add(plain []byte) (*Segment, error) {
	s := &Segment{}
	if err := p.fill(s, plain); err != nil {
		return nil, err
	}
	if known := p.known[s.ID]; known != nil {
		return known, nil
	}
	return s, nil
}

// fill makes s the place of plain. s may have been handed out before its content was complete.
func (p *packer) fill(s *Segment, plain []byte) error {
	id := Hash(blake3.Sum256(plain))
	if known := p.known[id]; known != nil {
		*s = *known
		return nil
	}
	packed := p.codec.compress(plain)
	if len(packed) >= len(plain) {
		packed = plain
	}
	if len(p.buf) == 0 {
		if _, err := rand.Read(p.id[:]); err != nil {
			return err
		}
		p.buf = append(make([]byte, 0, 1<<16), packMagic...)
	}
	*s = Segment{ID: id, Pack: p.id, Offset: uint32(len(p.buf)), Packed: uint32(len(packed)), Size: uint32(len(plain))}
	p.known[id] = s
	p.buf = append(p.buf, packed...)
	if len(p.buf) >= packTarget {
		return p.flush()
	}
	return p.ctx.Err()
}

// flush hands the pack to an upload.
func (p *packer) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	id, data := p.id, p.buf
	p.sizes[id] = int64(len(data))
	p.added += int64(len(data))
	p.buf = nil
	p.uploads.Go(func() error {
		if _, err := p.store.Put(p.ctx, p.layout.Pack(id), data); err != nil {
			return fmt.Errorf("upload pack: %w", err)
		}
		return nil
	})
	return p.ctx.Err()
}

// wait returns when every upload has ended.
func (p *packer) wait() error { return p.uploads.Wait() }

// refs lists packs with their sizes, ordered by id. used are all that the snapshot refers to; parent has the sizes of
// those that an earlier one uploaded.
func (p *packer) refs(used map[PackID]bool, parent map[PackID]int64) ([]PackRef, error) {
	refs := make([]PackRef, 0, len(used))
	for _, id := range slices.SortedFunc(maps.Keys(used), func(a, b PackID) int { return strings.Compare(string(a[:]), string(b[:])) }) {
		size, ok := p.sizes[id]
		if !ok {
			size, ok = parent[id]
		}
		if !ok {
			return nil, fmt.Errorf("%w: parent snapshot refers to pack %s without listing it", ErrCorrupt, id)
		}
		refs = append(refs, PackRef{ID: id.String(), Size: size})
	}
	return refs, nil
}
