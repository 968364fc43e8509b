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
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (_ body, err error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return body{}, refuse(api.ClassUnsupported, "", "Content-Encoding %s is not supported; send the body as it is", quoted(enc))
	}
	limit := int64(s.cfg.MaxBody)
	if r.ContentLength > limit {
		return body{}, s.tooLarge()
	}
	// A body that trickles in holds its bytes for no longer than this; a deadline left standing would cut a long poll.
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(s.bodyTime)); err != nil {
		return body{}, err
	}
	defer func() {
		if derr := control.SetReadDeadline(time.Time{}); err == nil {
			err = derr
		}
	}()

	held := int64(0)
	release := sync.OnceFunc(func() { s.budget.give(held) })
	data, err := s.readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, &held)
	if err != nil {
		release()
		return body{}, s.readProblem(err)
	}
	return body{data: data, Release: release}, nil
}

var errBudget = errors.New("no memory left for request bodies")

// readAll reserves what it reads before it reads it.
func (s *Server) readAll(src io.Reader, announced int64, held *int64) ([]byte, error) {
	const step = 64 << 10
	size := int64(step)
	if announced >= 0 {
		size = min(announced+1, step)
	}
	data := make([]byte, 0, size)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		if grow := int64(cap(data)) - *held; grow > 0 {
			if !s.budget.take(grow) {
				return nil, errBudget
			}
			*held += grow
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
