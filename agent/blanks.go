package agent

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
)

// blanks are empty files made before they are needed: making one takes a busy disk's file system half a millisecond or
// more, renaming it a few microseconds, and each job needs two.
type blanks struct {
	dir   string // their own; what an earlier agent left in it is removed
	ready chan *os.File
}

// blankCount is how many are kept: two for each of a burst of jobs.
const blankCount = 16

func newBlanks(dir string) (*blanks, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return &blanks{dir: dir, ready: make(chan *os.File, blankCount)}, os.Mkdir(dir, 0o700)
}

// keep makes blanks until ctx ends, and then removes those that were not needed. Where none can be made, open says why.
func (b *blanks) keep(ctx context.Context) {
	for ctx.Err() == nil {
		f, err := openAppend(filepath.Join(b.dir, rand.Text()))
		if err != nil {
			<-ctx.Done()
			break
		}
		select {
		case b.ready <- f:
		case <-ctx.Done():
			discardBlank(f)
		}
	}
	for {
		select {
		case f := <-b.ready:
			discardBlank(f)
		default:
			return
		}
	}
}

// open returns an empty file at path for appending, in place of whatever was there.
func (b *blanks) open(path string) (*os.File, error) {
	select {
	case f := <-b.ready:
		if err := os.Rename(f.Name(), path); err == nil {
			return f, nil
		}
		discardBlank(f)
	default:
	}
	return openAppend(path)
}

func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
}

func discardBlank(f *os.File) {
	f.Close()
	os.Remove(f.Name()) // a leftover is removed at the next start
}
