package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var errShort = errors.New("message is cut short")

// codec walks the fields of a message in a fixed order and either appends them to buf or takes them from it: each message
// is described once for both directions. After an error it does nothing more.
//
// Integers are 8 bytes little endian, lengths and counts 4. There is one encoding of each value.
type codec struct {
	buf     []byte
	reading bool
	err     error
}

func (c *codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.buf = nil
}

// take removes the next n bytes; nil: there are not as many.
func (c *codec) take(n int) []byte {
	if c.err != nil || n > len(c.buf) {
		c.fail(errShort)
		return nil
	}
	b := c.buf[:n:n]
	c.buf = c.buf[n:]
	return b
}

func (c *codec) u64(v *uint64) {
	if !c.reading {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, *v)
	} else if b := c.take(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

func (c *codec) i64(v *int64) {
	u := uint64(*v)
	c.u64(&u)
	*v = int64(u)
}

func (c *codec) int(v *int) {
	u := uint64(*v)
	c.u64(&u)
	*v = int(u)
}

func (c *codec) u32(v *uint32) {
	if !c.reading {
		c.buf = binary.LittleEndian.AppendUint32(c.buf, *v)
	} else if b := c.take(4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

func (c *codec) bool(v *bool) {
	var u uint32
	if *v {
		u = 1
	}
	c.u32(&u)
	if u > 1 {
		c.fail(fmt.Errorf("%d is no boolean", u))
	}
	*v = u == 1
}

func (c *codec) bytes(v *[]byte) {
	n := uint32(len(*v))
	c.u32(&n)
	if !c.reading {
		c.buf = append(c.buf, *v...)
	} else if b := c.take(int(n)); len(b) > 0 {
		*v = b
	}
}

func (c *codec) str(v *string) {
	b := []byte(*v)
	c.bytes(&b)
	if c.reading {
		*v = string(b)
	}
}

// list handles a counted sequence. No element takes less than 4 bytes, which bounds what a hostile count can allocate.
func list[T any](c *codec, v *[]T, each func(*T)) {
	n := uint32(len(*v))
	c.u32(&n)
	if c.reading && c.err == nil && n > 0 {
		if int(n) > len(c.buf)/4 {
			c.fail(errShort)
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		each(&(*v)[i])
	}
}

func (c *codec) strs(v *[]string) { list(c, v, c.str) }

func (c *codec) ints(v *[]int) { list(c, v, c.int) }
