package snapshot

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"
)

const (
	maxSegment = 8 << 20  // plaintext
	packTarget = 16 << 20 // a pack is uploaded when it has grown to this
	maxPack    = packTarget + maxSegment
)

func (s *Segment) check() error {
	switch {
	case s.Size == 0 || s.Size > maxSegment || s.Packed == 0 || s.Packed > s.Size:
		return fmt.Errorf("%w: segment of %d bytes in %d", ErrCorrupt, s.Size, s.Packed)
	case uint64(s.Offset)+uint64(s.Packed) > maxPack:
		return fmt.Errorf("%w: segment at %d of a pack", ErrCorrupt, s.Offset)
	}
	return nil
}

// codec compresses and expands. One per Writer or Reader; close it.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true)) // so that every frame tells its size
	if err != nil {
		return nil, fmt.Errorf("make zstd encoder: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxManifest), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	return &codec{enc: enc, dec: dec}, nil
}

func (c *codec) close() {
	c.enc.Close()
	c.dec.Close()
}

func (c *codec) compress(plain []byte) []byte { return c.enc.EncodeAll(plain, nil) }

// expand decompresses to at most limit bytes.
func (c *codec) expand(data []byte, limit int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(data); err != nil {
		return nil, fmt.Errorf("%w: zstd header: %v", ErrCorrupt, err)
	}
	if !h.HasFCS || h.FrameContentSize > uint64(limit) {
		return nil, fmt.Errorf("%w: expands to more than %d bytes", ErrTooLarge, limit)
	}
	plain, err := c.dec.DecodeAll(data, make([]byte, 0, h.FrameContentSize))
	if err != nil {
		return nil, fmt.Errorf("%w: zstd: %v", ErrCorrupt, err)
	}
	return plain, nil
}

// open returns the plaintext of a segment from its packed bytes, verified.
func (c *codec) open(s *Segment, packed []byte) ([]byte, error) {
	plain := packed
	if s.Packed != s.Size {
		var err error
		if plain, err = c.expand(packed, int(s.Size)); err != nil {
			return nil, fmt.Errorf("segment %s of pack %s: %w", s.ID, s.Pack, err)
		}
	}
	if sum := Hash(blake3.Sum256(plain)); sum != s.ID || len(plain) != int(s.Size) {
		return nil, fmt.Errorf("%w: segment %s of pack %s has the hash %s", ErrCorrupt, s.ID, s.Pack, sum)
	}
	return plain, nil
}
