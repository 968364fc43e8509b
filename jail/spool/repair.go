package spool

import (
	"fmt"
	"io"
	"os"
)

// Repair cuts a torn record off the end of the spool at path and returns how many whole records it holds. Call it
// before appending to the spool of a writer that was killed, and only when no other writer is left.
func Repair(path string) (records int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("open spool: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	r := NewReader(f)
	for err == nil {
		err = r.SkipTo(r.Seq() + 1)
	}
	if err != io.EOF {
		return r.seq, err
	}
	info, err := f.Stat()
	if err != nil {
		return r.seq, fmt.Errorf("stat spool: %w", err)
	}
	if info.Size() == r.off {
		return r.seq, nil
	}
	if err := f.Truncate(r.off); err != nil {
		return r.seq, fmt.Errorf("truncate torn record: %w", err)
	}
	return r.seq, nil
}
