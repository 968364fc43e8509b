package agent

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// problem is a refusal on its way to the client: an api.Problem that is an error. What a client sent is quoted and cut
// where it appears in a message.
type problem struct {
	api.Problem
}

func (p *problem) Error() string {
	if p.Field == "" {
		return p.Class + ": " + p.Detail
	}
	return p.Class + ": " + p.Field + ": " + p.Detail
}

// refuse makes a problem. Field names the part of the request it is about, or is empty.
func refuse(class, field, format string, args ...any) *problem {
	p := &problem{api.NewProblem(class, fmt.Sprintf(format, args...))}
	p.Field = field
	return p
}

// hint adds what to do about it.
func (p *problem) hint(format string, args ...any) *problem {
	p.Hint = fmt.Sprintf(format, args...)
	return p
}

// after says when it is worth trying again.
func (p *problem) after(d time.Duration) *problem {
	p.RetryAfterMS = max(d.Milliseconds(), 1)
	return p
}

// asProblem maps an error to what the client sees of it. An error that is no problem is ours, and its text stays here.
func asProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return refuse(api.ClassInternal, "", "tolbooth could not do its part; the agent's log says why")
}

// answerProblem writes err as problem+json. Errors that are no problems are logged, since the client is not told.
func (s *Server) answerProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := asProblem(err)
	if p.Class == api.ClassInternal {
		s.log.Error("request failed", "method", r.Method, "path", clip(r.URL.Path), keyErr, err)
	}
	s.metrics.problem(p.Class)
	h := w.Header()
	h.Set("Content-Type", api.ProblemType)
	h.Set("Cache-Control", "no-store")
	if p.RetryAfterMS > 0 {
		h.Set("Retry-After", strconv.FormatInt((p.RetryAfterMS+999)/1000, 10))
	}
	if r.Body != http.NoBody {
		h.Set("Connection", "close") // the rest of the body, if any, is not waited for
	}
	if p.Class == api.ClassUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="tolbooth"`)
	}
	s.write(w, r, p.Status, p.Problem)
}

// answer writes v as JSON.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	s.write(w, r, status, v)
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := encodeJSON(v)
	if err != nil {
		// Every value is ours and encodes, save for text from elsewhere that is not UTF-8.
		s.log.Error("encode answer", "path", clip(r.URL.Path), keyErr, err)
		w.Header().Set("Content-Type", api.ProblemType)
		status, body = http.StatusInternalServerError, []byte(`{"class":"internal","status":500}`)
	}
	s.writeBytes(w, r, status, append(body, '\n'))
}

func (s *Server) writeBytes(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil {
		s.log.Debug("client left", "path", clip(r.URL.Path), keyErr, err)
	}
}

// quoted makes text from a client safe and short enough for a message.
func quoted(s string) string { return strconv.Quote(clip(s)) }

// clip makes text from a client short enough for a log line, which quotes it itself.
func clip(s string) string { return s[:min(len(s), 128)] }
