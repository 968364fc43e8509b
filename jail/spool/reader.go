package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrCorrupt is wrapped by the error for bytes that no writer makes. Nothing behind them can be read.
var ErrCorrupt = errors.New("spool is corrupt")

// Reader reads the records of one spool in order, while it may still grow.
type Reader struct {
	src    io.ReaderAt
	closer io.Closer // nil: not ours

	seq   int64  // of the next record
	off   int64  // of the next record
	buf   []byte // bytes of the file from off on, a part of store
	store []byte
	err   error // ErrCorrupt, for ever
}

// NewReader reads from the start of src, which the caller keeps.
func NewReader(src io.ReaderAt) *Reader { return &Reader{src: src} }

// Open reads the spool at path from its start. The caller closes the Reader.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	return &Reader{src: f, closer: f}, nil
}

// Close closes what Open opened. It may be called twice.
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	c := r.closer
	r.closer = nil
	return c.Close()
}

// Seq is the sequence number of the record that Next returns next.
func (r *Reader) Seq() int64 { return r.seq }

// Next returns the next record. At the present end, a torn record included, it returns io.EOF; call it again when the
// file may have grown. The payload is the caller's.
func (r *Reader) Next() (Record, error) {
	kind, atUS, payload, err := r.peek()
	if err != nil {
		return Record{}, err
	}
	rec := Record{Seq: r.seq, Kind: kind, AtUS: atUS, Payload: append([]byte{}, payload...)}
	r.advance(len(payload))
	return rec, nil
}

// SkipTo moves forward to the record with sequence number seq. When the file does not hold that many yet, it stays at
// the end and returns io.EOF: call it again later. Going back needs a new Reader.
func (r *Reader) SkipTo(seq int64) error {
	if seq < r.seq {
		return fmt.Errorf("skip spool to %d: already at %d", seq, r.seq)
	}
	for r.seq < seq {
		_, _, payload, err := r.peek()
		if err != nil {
			return err
		}
		r.advance(len(payload))
	}
	return nil
}

// Scan calls fn for each record that is there, up to the present end. An error of fn ends it and is returned as it is.
func Scan(r *Reader, fn func(Record) error) error {
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(rec); err != nil {
			return err
		}
	}
}

// peek parses the next record in the buffer, reading more of the file when it has to.
func (r *Reader) peek() (kind Kind, atUS int64, payload []byte, err error) {
	if r.err != nil {
		return 0, 0, nil, r.err
	}
	head, err := r.need(headerSize)
	if err != nil {
		return 0, 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head)
	kind = Kind(head[4])
	if [3]byte(head[5:8]) != mark || !kind.valid() || n > MaxPayload {
		r.err = fmt.Errorf("%w at offset %d: header % x", ErrCorrupt, r.off, head)
		return 0, 0, nil, r.err
	}
	atUS = int64(binary.LittleEndian.Uint64(head[8:]))
	whole, err := r.need(headerSize + int(n))
	if err != nil {
		return 0, 0, nil, err
	}
	return kind, atUS, whole[headerSize:], nil
}

func (r *Reader) advance(payload int) {
	r.buf = r.buf[headerSize+payload:]
	r.off += int64(headerSize + payload)
	r.seq++
}

// need returns the first n bytes of the next record. When the file ends before, it forgets what it has of the record
// and returns io.EOF: a torn record may be gone, and another one in its place, at the next call.
func (r *Reader) need(n int) ([]byte, error) {
	if len(r.buf) >= n {
		return r.buf[:n], nil
	}
	store := r.store
	if len(store) < n {
		store = make([]byte, max(n, 16<<10))
	}
	have := copy(store, r.buf)
	got, err := r.src.ReadAt(store[have:], r.off+int64(have))
	r.store, r.buf = store, store[:have+got]
	if len(r.buf) >= n {
		return r.buf[:n], nil
	}
	r.buf = nil
	if err == nil || errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	return nil, fmt.Errorf("read spool: %w", err)
}
