package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const headerSize = 16

var mark = [3]byte{'t', 'b', 1}

// Writer appends records to one spool.
type Writer struct {
	file *os.File
	zero int64 // CLOCK_MONOTONIC nanoseconds

	mu     sync.Mutex // one record at a time; guards what follows
	buf    []byte
	broken error // the end of the file can no longer be trusted by this writer
}

// NewWriter returns a writer whose records carry the time since zero. f must be open with O_APPEND; the caller keeps it.
func NewWriter(f *os.File, zero time.Time) *Writer {
	return NewWriterAt(f, Monotonic(zero))
}

// NewWriterAt is NewWriter for a zero point that came from another process, in CLOCK_MONOTONIC nanoseconds.
func NewWriterAt(f *os.File, zeroMonotonicNS int64) *Writer {
	w := &Writer{file: f, zero: zeroMonotonicNS}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	switch {
	case err != nil:
		w.broken = fmt.Errorf("fcntl(F_GETFL) on spool: %w", err)
	case flags&unix.O_APPEND == 0:
		// Without it the kernel would let two processes write at one offset.
		w.broken = errors.New("spool is not open with O_APPEND")
	}
	return w
}

// Append writes one record. It stamps the time itself, so that records of one writer are in order of time.
func (w *Writer) Append(kind Kind, payload []byte) error {
	if !kind.valid() {
		return fmt.Errorf("append to spool: unknown kind %d", kind)
	}
	if len(payload) > MaxPayload {
		return fmt.Errorf("append to spool: payload of %d bytes is over %d", len(payload), MaxPayload)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	w.buf = appendRecord(w.buf[:0], kind, (MonotonicNow()-w.zero)/1000, payload)
	n, err := writeOnce(w.file, w.buf)
	if n > 0 && n < len(w.buf) {
		return w.undo(n)
	}
	if err != nil {
		return fmt.Errorf("write to spool: %w", err)
	}
	return nil
}

// undo removes the first n bytes of a record whose rest did not fit. Another process could append between the two
// calls and lose its record, but the disk is full: its write fails too. Leaving the piece would spoil all that follows.
func (w *Writer) undo(n int) error {
	info, err := w.file.Stat()
	if err == nil {
		err = w.file.Truncate(info.Size() - int64(n))
	}
	if err != nil {
		w.broken = fmt.Errorf("spool has a torn record: %w", err)
		return w.broken
	}
	return fmt.Errorf("write to spool: %w", unix.ENOSPC)
}

func appendRecord(b []byte, kind Kind, atUS int64, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, byte(kind))
	b = append(b, mark[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(atUS))
	return append(b, payload...)
}

// writeOnce is one write(2). os.File.Write would follow a short write with another one, which is no longer one record.
func writeOnce(f *os.File, b []byte) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := conn.Write(func(fd uintptr) bool {
		for {
			n, err = unix.Write(int(fd), b)
			if err != unix.EINTR {
				return true
			}
		}
	})
	if cerr != nil {
		return 0, cerr
	}
	return max(n, 0), err
}
