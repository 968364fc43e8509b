package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// stdinStall is how long a full pipe is given before a request that feeds it is answered: a job that does not read its
// input holds no request for ever.
const stdinStall = 30 * time.Second

// stdinFile holds a request's stdin text where the command can read it: a file in memory, sealed, so that nothing that
// is done to it in the jail reaches anywhere. Empty text needs none.
func stdinFile(text []byte) (*os.File, error) {
	if len(text) == 0 {
		return nil, nil
	}
	f, err := stdinMemory()
	if err != nil {
		return nil, err
	}
	if err := fillSealed(f, text); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// stdinMemory makes the file, which cannot be executed (a job may have denied itself that): nobody may, and since the file is not
// the job's own, nobody in the jail can change that.
func stdinMemory() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("stdin", flags|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate("stdin", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create for stdin: %w", err)
	}
	f := os.NewFile(uintptr(fd), "stdin")
	if err := f.Chmod(0o444); err != nil { // before Linux 6.3 it is made executable
		f.Close()
		return nil, fmt.Errorf("fchmod of stdin: %w", err)
	}
	return f, nil
}

func fillSealed(f *os.File, text []byte) error {
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("write stdin: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind stdin: %w", err)
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("fcntl(F_ADD_SEALS) on stdin: %w", err)
	}
	return nil
}

// stdinPipe is the end of an open stdin that requests feed. Requests take turns.
type stdinPipe struct {
	turn  chan struct{} // holds one token
	stall time.Duration

	mu   sync.Mutex
	file *os.File // guarded by mu; nil: closed
}

// openStdin returns the pipe and the end that the job reads.
func openStdin() (*stdinPipe, *os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe2 for stdin: %w", err)
	}
	// Only the agent's end is non-blocking: a program that finds its stdin so takes EAGAIN for the end of its input.
	r := os.NewFile(uintptr(fds[0]), "stdin")
	if err := unix.SetNonblock(fds[1], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("fcntl(O_NONBLOCK) on stdin: %w", err), r.Close(), unix.Close(fds[1]))
	}
	p := &stdinPipe{turn: make(chan struct{}, 1), stall: stdinStall, file: os.NewFile(uintptr(fds[1]), "stdin")}
	p.turn <- struct{}{}
	return p, r, nil
}

// Feed copies src into the pipe, then sends EOF when last is set, and returns how many bytes went in. It waits while
// the pipe is full: for as long as the job takes some of it, ctx lasts and the job runs.
func (p *stdinPipe) Feed(ctx context.Context, src io.Reader, last bool) (int64, error) {
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	f := p.open()
	if f == nil {
		return 0, refuse(api.ClassConflict, "", "the job's stdin is closed")
	}
	stop := context.AfterFunc(ctx, func() { f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()

	var total int64
	buf := make([]byte, 16<<10)
	for {
		n, readErr := src.Read(buf)
		for piece := buf[:n]; len(piece) > 0; {
			if err := f.SetWriteDeadline(time.Now().Add(p.stall)); err != nil {
				return total, p.gone(total)
			}
			if ctx.Err() != nil {
				return total, ctx.Err()
			}
			wrote, err := f.Write(piece)
			total += int64(wrote)
			piece = piece[wrote:]
			switch {
			case err == nil, errors.Is(err, os.ErrDeadlineExceeded) && wrote > 0:
			case ctx.Err() != nil:
				return total, ctx.Err()
			case errors.Is(err, os.ErrDeadlineExceeded):
				return total, refuse(api.ClassConflict, "", "the job has not read its stdin for %s; %d bytes of this body were taken", p.stall, total).
					hint("send the rest when the job reads again")
			default:
				return total, p.gone(total)
			}
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return total, readErr
		}
	}
	if last {
		p.Close()
	}
	return total, nil
}

func (p *stdinPipe) gone(total int64) error {
	return refuse(api.ClassConflict, "", "the job reads no more of its stdin: it ended or closed it; %d bytes of this body were taken", total)
}

func (p *stdinPipe) open() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.file
}

// Close sends EOF. A request that waits for room is let go. It may be called twice.
func (p *stdinPipe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil {
		p.file.Close()
		p.file = nil
	}
}
