package agent

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// budget bounds how many bytes of request bodies the agent holds, over all requests and all jobs whose files are not
// written yet: many clients with large bodies at once must not be what the kernel kills the agent for.
type budget struct {
	mu   sync.Mutex
	left int64 // guarded by mu
}

// take reserves n bytes, or says that they are not there.
func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// body is a request's body in memory, with what it holds of the budget. Release may be called twice.
type body struct {
	data    []byte
	Release func()
}

// readBody reads a whole body within its size, its share of the budget and its time.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (body, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return body{}, refuse(api.ClassUnsupported, "", "Content-Encoding %s is not supported; send the body as it is", quoted(enc))
	}
	limit := int64(s.cfg.MaxBody)
	if r.ContentLength > limit {
		return body{}, s.tooLarge()
	}
	held := int64(0)
	release := sync.OnceFunc(func() { s.budget.give(held) })
	data, err := s.readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, &held)
	if err != nil {
		release()
		return body{}, s.readProblem(err)
	}
	if err := s.bodyArrived(w); err != nil {
		release()
		return body{}, err
	}
	r.Body = http.NoBody // nothing of it is left to be read
	return body{data: data, Release: release}, nil
}

// expectBody gives a request's body its time. What is left of the body of a refused request falls under it too: the
// server reads on for a little, so that the client gets to see the answer.
func (s *Server) expectBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	return http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.bodyTime))
}

// bodyArrived lifts the time again: left standing, it would cut a long poll.
func (s *Server) bodyArrived(w http.ResponseWriter) error {
	return http.NewResponseController(w).SetReadDeadline(time.Time{})
}

var errBudget = errors.New("no memory left for request bodies")

// readAll reserves what it reads before it reads it.
func (s *Server) readAll(src io.Reader, announced int64, held *int64) ([]byte, error) {
	most := int64(s.cfg.MaxBody) + 1
	size := min(64<<10, most)
	if announced >= 0 {
		size = min(announced+1, size)
	}
	var data []byte
	for {
		if len(data) == cap(data) {
			if len(data) > 0 {
				size = min(2*size, most)
			}
			if !s.budget.take(size - *held) {
				return nil, errBudget
			}
			*held = size
			data = append(make([]byte, 0, size), data...)
		}
		n, err := src.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *Server) tooLarge() *problem {
	return refuse(api.ClassTooLarge, "", "the body is larger than %s", s.cfg.MaxBody).
		hint("put large inputs into a named workspace, or raise max_body on the node")
}

func (s *Server) readProblem(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return s.tooLarge()
	}
	if errors.Is(err, errBudget) {
		return refuse(api.ClassCapacity, "", "the node holds as many request bodies as its memory is planned for").after(time.Second)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(api.ClassInvalid, "", "the body did not arrive within %s", s.bodyTime)
	}
	return refuse(api.ClassInvalid, "", "the body could not be read: it ended early")
}
