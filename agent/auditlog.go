package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// auditLog appends lines to a file, one write a line, and starts a new file when it has grown. The writing is done behind
// the jobs, so that a disk that hangs delays none. A line that cannot be written is lost, and lost tells of it.
type auditLog struct {
	path  string
	most  int64 // bytes of one file
	keep  int   // older files kept: path.1 is the newest
	lost  func(id string, err error)
	lines chan auditEntry
	done  chan struct{} // closed when everything is written

	mu     sync.Mutex // guards what follows, and the sending on lines
	closed bool

	file *os.File // the writer's own, like what follows
	size int64
}

type auditEntry struct {
	id   string
	line []byte
}

// auditWaiting is how many lines wait for a slow disk.
const auditWaiting = 4096

var (
	errAuditSlow   = errors.New("too many lines wait to be written")
	errAuditClosed = errors.New("the audit log is closed")
)

// openAudit opens the file, so that one that cannot be opened stops the start, and begins to write.
func openAudit(path string, most int64, keep int, lost func(id string, err error)) (*auditLog, error) {
	a := &auditLog{path: path, most: most, keep: keep, lost: lost, lines: make(chan auditEntry, auditWaiting), done: make(chan struct{})}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	go a.writeAll()
	return a, nil
}

// Append hands a line over, and returns at once.
func (a *auditLog) Append(id string, line []byte) {
	a.mu.Lock()
	err := errAuditClosed
	if !a.closed {
		select {
		case a.lines <- auditEntry{id, line}:
			err = nil
		default:
			err = errAuditSlow
		}
	}
	a.mu.Unlock()
	if err != nil {
		a.lost(id, err)
	}
}

// Close waits until everything is written, as long as a disk may take.
func (a *auditLog) Close() error {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.lines)
	}
	a.mu.Unlock()
	select {
	case <-a.done:
		return nil
	case <-time.After(answersTime):
		return fmt.Errorf("the audit log %s does not take its last lines", a.path)
	}
}

func (a *auditLog) writeAll() {
	defer close(a.done)
	for e := range a.lines {
		if err := a.write(e.line); err != nil {
			a.lost(e.id, err)
		}
	}
	if a.file != nil {
		a.file.Close()
	}
}

// write appends one line. What is written of half a line is taken off again.
func (a *auditLog) write(line []byte) error {
	if err := a.ready(int64(len(line))); err != nil {
		return err
	}
	if _, err := a.file.Write(line); err != nil {
		return errors.Join(fmt.Errorf("write the audit log: %w", err), a.file.Truncate(a.size))
	}
	a.size += int64(len(line))
	return nil
}

// ready makes the open file the one that the path names, also after somebody else moved that away, with room for a line.
func (a *auditLog) ready(more int64) error {
	if a.file != nil {
		named, err := os.Lstat(a.path)
		open, openErr := a.file.Stat()
		if err != nil || openErr != nil || !os.SameFile(named, open) {
			a.file.Close()
			a.file = nil
		}
	}
	if a.file == nil {
		if err := a.open(); err != nil {
			return err
		}
	}
	if a.size == 0 || a.size+more <= a.most {
		return nil
	}
	return a.rotate()
}

// rotate renames each file to the next number, the oldest away, and starts a new one.
func (a *auditLog) rotate() error {
	for i := a.keep; i >= 0; i-- {
		var err error
		if i == a.keep {
			err = os.Remove(a.numbered(i))
		} else {
			err = os.Rename(a.numbered(i), a.numbered(i+1))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate the audit log: %w", err)
		}
	}
	a.file.Close()
	a.file = nil
	return a.open()
}

func (a *auditLog) numbered(i int) string {
	if i == 0 {
		return a.path
	}
	return a.path + "." + strconv.Itoa(i)
}

// open opens the file for root alone. It follows no link and takes regular files only. An agent that was killed in the
// middle of a line gets it ended, so that the next one stands for itself.
func (a *auditLog) open() (err error) {
	f, err := os.OpenFile(a.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", a.path)
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	size := info.Size()
	if size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			if _, err := f.WriteString("\n"); err != nil {
				return err
			}
			size++
		}
	}
	a.file, a.size = f, size
	return nil
}
