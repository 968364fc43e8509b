package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"
	_ "github.com/PlakarKorp/go-cdc-chunkers/chunkers/fastcdc" // the chunker's name is registered on import
	"github.com/zeebo/blake3"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

const (
	// smallFile is the size up to which a file shares a segment with its neighbours.
	smallFile = 256 << 10
	// bundleTarget is the plaintext of one shared segment.
	bundleTarget = 1 << 20

	chunkAlgorithm = "fastcdc-v1.0.0" // a change of algorithm or sizes loses deduplication, nothing else
	chunkMin       = 256 << 10
	chunkNormal    = 1 << 20
	chunkMax       = 4 << 20
)

// Info describes a snapshot to be written.
type Info struct {
	Parent    string // id; empty for the first
	CreatedAt time.Time
	Node      string
	Job       string
	Base      string
}

// Writer writes one snapshot: entries in the order of a walk, then Finish. What the parent has already is referred to, not
// written again.
type Writer struct {
	layout  Layout
	store   store.Store
	codec   *codec
	packer  *packer
	chunker *chunkers.Chunker

	manifest Manifest
	order    order
	node     []*Entry // of the node being filled
	nodeSize int
	used     map[PackID]bool
	parent   *Manifest        // nil: none
	packs    map[PackID]int64 // sizes of the parent's packs

	small  map[Hash]Extent // content of small files, of the parent and of this one
	bundle *Segment        // shared segment being filled; nil: none
	shared []byte
}

// NewWriter reads the parent's tree, when there is one, and starts a snapshot. Close it in any case.
func NewWriter(ctx context.Context, s store.Store, l Layout, info Info) (*Writer, error) {
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	w := &Writer{
		layout: l, store: s, codec: c, packer: newPacker(ctx, s, l, c),
		used: map[PackID]bool{}, packs: map[PackID]int64{}, small: map[Hash]Extent{},
		manifest: Manifest{
			Workspace: l.Workspace, DataSet: l.DataSet, Sequence: 1, Parent: info.Parent,
			CreatedAt: info.CreatedAt.UTC(), Node: info.Node, Job: info.Job, Base: info.Base,
		},
	}
	if info.Parent != "" {
		if err := w.learn(ctx, info.Parent); err != nil {
			w.Close()
			return nil, fmt.Errorf("read parent snapshot: %w", err)
		}
	}
	return w, nil
}

// learn fills the tables of what need not be written again.
func (w *Writer) learn(ctx context.Context, parent string) error {
	r, err := Open(ctx, w.store, w.layout, parent)
	if err != nil {
		return err
	}
	defer r.Close()
	w.parent = r.Manifest
	w.manifest.Sequence = r.Manifest.Sequence + 1
	for id, size := range r.packs {
		w.packs[id] = size
	}
	for i := range r.Manifest.Nodes {
		place, entries, segments, err := r.node(ctx, i)
		if err != nil {
			return err
		}
		w.packer.known[place.ID] = place
		for _, s := range segments {
			w.packer.known[s.ID] = s
		}
		for _, e := range entries {
			if e.Hash != nil && len(e.Extents) == 1 {
				w.small[*e.Hash] = e.Extents[0]
			}
		}
	}
	return nil
}

// Close ends the uploads and releases memory. After Finish it does nothing more.
func (w *Writer) Close() error {
	err := w.packer.wait()
	w.codec.close()
	return err
}

// Add appends an entry. For a File, the data runs are read from content; its extents are filled in here.
func (w *Writer) Add(e *Entry, runs []Run, content io.ReaderAt) error {
	if err := e.check(); err != nil {
		return err
	}
	if e.Kind == File {
		if err := w.data(e, runs, content); err != nil {
			return fmt.Errorf("store %s: %w", quotePath(e.Path), err)
		}
		w.manifest.Files++
	}
	if err := w.order.next(e); err != nil {
		return err
	}
	w.split(e)
	w.manifest.Entries++
	if w.nodeSize >= nodeSoft || endsNode(e.Path) {
		return w.endNode()
	}
	return nil
}

// split appends an entry, what is too much for one as continuations.
func (w *Writer) split(e *Entry) {
	part, rest := e, e.Extents
	for {
		n := min(len(rest), maxExtents)
		part.Extents, rest = rest[:n:n], rest[n:]
		w.append(part)
		if len(rest) == 0 {
			return
		}
		part = &Entry{Kind: More, Path: e.Path}
	}
}

func (w *Writer) append(e *Entry) {
	w.node = append(w.node, e)
	w.nodeSize += 64 + len(e.Path) + len(e.Target) + 56*len(e.Extents)
	for _, x := range e.Xattrs {
		w.nodeSize += len(x.Name) + len(x.Value)
	}
}

// Run is a stretch of data in a file; between runs there are holes.
type Run struct{ Offset, Length int64 }

func (w *Writer) data(e *Entry, runs []Run, content io.ReaderAt) error {
	for _, r := range runs {
		w.manifest.Bytes += r.Length
	}
	if len(runs) == 1 && runs[0].Offset == 0 && runs[0].Length == e.Size && e.Size <= smallFile {
		return w.bundled(e, content)
	}
	for _, r := range runs {
		if err := w.chunked(e, r, content); err != nil {
			return err
		}
	}
	return nil
}

// bundled puts a small file behind its neighbours into a shared segment.
func (w *Writer) bundled(e *Entry, content io.ReaderAt) error {
	start := len(w.shared)
	if start > 0 && start+int(e.Size) > bundleTarget {
		if err := w.endBundle(); err != nil {
			return err
		}
		start = 0
	}
	if cap(w.shared) == 0 {
		w.shared = make([]byte, 0, bundleTarget)
	}
	w.shared = w.shared[:start+int(e.Size)]
	data := w.shared[start:]
	if err := readFull(content, data, 0); err != nil {
		w.shared = w.shared[:start]
		return err
	}
	h := Hash(blake3.Sum256(data))
	e.Hash = &h
	if known, ok := w.small[h]; ok {
		w.shared = w.shared[:start]
		e.Extents = []Extent{known}
		return nil
	}
	if w.bundle == nil {
		w.bundle = &Segment{}
	}
	x := Extent{Length: e.Size, Segment: w.bundle, Start: uint32(start)}
	w.small[h] = x
	e.Extents = []Extent{x}
	return nil
}

// endBundle gives the shared segment its place.
func (w *Writer) endBundle() error {
	if w.bundle == nil {
		return nil
	}
	s, data := w.bundle, w.shared
	w.bundle, w.shared = nil, w.shared[:0]
	return w.packer.fill(s, data)
}

// chunked cuts a run where its content says, so that an insertion moves no later cut.
func (w *Writer) chunked(e *Entry, r Run, content io.ReaderAt) error {
	if r.Length < chunkMin {
		buf := make([]byte, r.Length)
		if err := readFull(content, buf, r.Offset); err != nil {
			return err
		}
		return w.chunk(e, r.Offset, buf)
	}
	section := io.NewSectionReader(content, r.Offset, r.Length)
	if w.chunker == nil {
		var err error
		opts := &chunkers.ChunkerOpts{MinSize: chunkMin, NormalSize: chunkNormal, MaxSize: chunkMax}
		if w.chunker, err = chunkers.NewChunker(chunkAlgorithm, section, opts); err != nil {
			return fmt.Errorf("make chunker: %w", err)
		}
	} else {
		w.chunker.Reset(section)
	}
	at := r.Offset
	for at < r.Offset+r.Length {
		data, err := w.chunker.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(data) == 0 {
			return errors.New("file became shorter while it was read")
		}
		if err := w.chunk(e, at, data); err != nil {
			return err
		}
		at += int64(len(data))
	}
	return nil
}

func (w *Writer) chunk(e *Entry, at int64, data []byte) error {
	s, err := w.packer.add(data)
	if err != nil {
		return err
	}
	e.Extents = append(e.Extents, Extent{Offset: at, Length: int64(len(data)), Segment: s})
	return nil
}

// endNode writes the node and remembers where it is.
func (w *Writer) endNode() error {
	if len(w.node) == 0 {
		return nil
	}
	if err := w.endBundle(); err != nil {
		return err
	}
	entries := int64(0)
	for _, e := range w.node {
		if e.Kind != More {
			entries++
		}
		for _, x := range e.Extents {
			w.used[x.Segment.Pack] = true
		}
	}
	plain := encodeNode(w.node)
	if len(plain) > maxNode {
		return fmt.Errorf("%w: tree node of %d bytes", ErrTooLarge, len(plain))
	}
	s, err := w.packer.add(plain)
	if err != nil {
		return err
	}
	w.used[s.Pack] = true
	w.manifest.Nodes = append(w.manifest.Nodes, NodeRef{
		First: []byte(w.node[0].Path), Entries: entries,
		ID: s.ID.String(), Pack: s.Pack.String(), Offset: s.Offset, Packed: s.Packed, Size: s.Size,
	})
	w.node, w.nodeSize = nil, 0
	return nil
}

// Finish writes what is left, waits until everything is stored, and stores the manifest. The snapshot is complete then,
// but nothing refers to it yet. When the tree is exactly the parent's, no snapshot is made: the parent's id and manifest
// are returned.
func (w *Writer) Finish(ctx context.Context) (string, *Manifest, error) {
	if err := w.endNode(); err != nil {
		return "", nil, err
	}
	if err := errors.Join(w.packer.flush(), w.packer.wait()); err != nil {
		return "", nil, err
	}
	m := &w.manifest
	if w.unchanged() {
		return m.Parent, w.parent, nil
	}
	m.BytesAdded = w.packer.added
	var err error
	if m.Packs, err = w.packer.refs(w.used, w.packs); err != nil {
		return "", nil, err
	}
	if len(m.Nodes) > maxNodes {
		return "", nil, fmt.Errorf("%w: %d tree nodes", ErrTooLarge, len(m.Nodes))
	}
	id, data, err := m.encode(w.codec)
	if err != nil {
		return "", nil, err
	}
	if _, err := w.store.Put(ctx, w.layout.Snapshot(id), data); err != nil {
		return "", nil, fmt.Errorf("upload manifest: %w", err)
	}
	return id, m, nil
}

// unchanged says whether the tree is the parent's: nodes are named by their content.
func (w *Writer) unchanged() bool {
	return w.parent != nil && slices.EqualFunc(w.parent.Nodes, w.manifest.Nodes, func(a, b NodeRef) bool { return a.ID == b.ID })
}

// readFull reads exactly len(buf) bytes at off.
func readFull(r io.ReaderAt, buf []byte, off int64) error {
	n, err := r.ReadAt(buf, off)
	if n == len(buf) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errors.New("file became shorter while it was read")
	}
	return err
}
