package warden

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/spool"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// pipes are the program's stdout and stderr: read end, write end.
type pipes struct{ out, err [2]int }

// makePipes makes both and gives them to the program's ids, so that it can open /dev/stdout again.
func makePipes(uid, gid int) (p pipes, err error) {
	for _, pipe := range []*[2]int{&p.out, &p.err} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return p, fmt.Errorf("pipe2: %w", err)
		}
		if err := unix.Fchown(pipe[1], uid, gid); err != nil {
			return p, fmt.Errorf("fchown pipe: %w", err)
		}
		// The read end alone: whether a write blocks is the program's affair.
		if err := unix.SetNonblock(pipe[0], true); err != nil {
			return p, fmt.Errorf("fcntl pipe: %w", err)
		}
	}
	return p, nil
}

// closeWriters leaves the program as the only writer.
func (p pipes) closeWriters() {
	unix.Close(p.out[1])
	unix.Close(p.err[1])
}

// stream is one of the two.
type stream struct {
	fd    int // -1: at its end
	kind  spool.Kind
	total int64 // bytes read
}

// pump moves what the program prints into the spool: both streams in the order in which they become readable, up to a limit
// for each. Beyond it the bytes are counted and dropped, so that a program is never held up by a reader.
type pump struct {
	streams   [2]stream
	limit     int64
	record    *recorder
	post      func(any)
	wake      int           // eventfd: the writers are dead
	done      chan struct{} // closed when everything is read
	truncated bool
	broken    bool // the spool takes no more
	buf       []byte
}

func newPump(p pipes, limit int64, record *recorder, post func(any)) (*pump, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &pump{
		streams: [2]stream{{fd: p.out[0], kind: spool.Stdout}, {fd: p.err[0], kind: spool.Stderr}},
		limit:   limit, record: record, post: post, wake: wake, done: make(chan struct{}),
		buf: make([]byte, spool.MaxPayload),
	}, nil
}

// run reads until drain is called and the pipes are empty.
func (p *pump) run() {
	defer close(p.done)
	for {
		fds := []unix.PollFd{
			{Fd: int32(p.streams[0].fd), Events: unix.POLLIN}, // poll passes over a negative number
			{Fd: int32(p.streams[1].fd), Events: unix.POLLIN},
			{Fd: int32(p.wake), Events: unix.POLLIN},
		}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			p.post(fault{"poll", err})
			return
		}
		for i := range p.streams {
			if fds[i].Revents != 0 {
				p.read(&p.streams[i])
			}
		}
		if fds[2].Revents != 0 {
			for i := range p.streams {
				for p.read(&p.streams[i]) {
				}
			}
			return
		}
	}
}

// read moves one piece; false: there is none now.
func (p *pump) read(s *stream) bool {
	if s.fd < 0 {
		return false
	}
	n, err := unix.Read(s.fd, p.buf)
	switch {
	case err == unix.EINTR:
		return true
	case err == unix.EAGAIN:
		return false
	case err != nil:
		p.post(fault{"output", fmt.Errorf("read pipe: %w", err)})
		fallthrough
	case n == 0:
		unix.Close(s.fd)
		s.fd = -1
		return false
	}
	keep := min(int64(n), max(p.limit-s.total, 0))
	s.total += int64(n)
	if keep > 0 && !p.broken {
		if err := p.record.append(s.kind, p.buf[:keep]); err != nil {
			p.broken = true // once is enough: the run ends
			p.post(fault{"spool", err})
		}
	}
	if keep < int64(n) && !p.truncated {
		p.truncated = true
		p.post(limitHit{wire.CauseOutput})
	}
	return true
}

// drain takes what is left in the pipes after the last writer died, and returns when it is recorded.
func (p *pump) drain() error {
	if _, err := unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("write to eventfd: %w", err)
	}
	<-p.done
	if p.broken {
		return errors.New("output is missing from the spool")
	}
	return nil
}
