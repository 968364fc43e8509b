package client

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// Problem is the agent's refusal of a call: which class, what, and what to do about it.
type Problem struct {
	api.Problem
}

// Error says what, which field, and the hint, in one line.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return fmt.Sprintf("%s: %s", p.Class, text)
}

// Class is the problem class of err, or "" when err is no Problem.
func Class(err error) string {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Class
	}
	return ""
}

// readProblem turns an answer that is no success into an error. An answer of something else than an agent (a proxy, a
// wrong port) becomes a Problem too, of class internal, quoting the start of what came.
func readProblem(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return fmt.Errorf("read problem of %s (status %d): %w", describe(resp.Request), resp.StatusCode, err)
	}
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != api.ProblemType || json.Unmarshal(body, &p.Problem) != nil || p.Class == "" {
		p.Problem = api.Problem{
			Title:  http.StatusText(resp.StatusCode),
			Class:  api.ClassInternal,
			Detail: fmt.Sprintf("%s answered %d with no problem document: %.128q", describe(resp.Request), resp.StatusCode, body),
			Hint:   "is this address a tolbooth agent?",
		}
	}
	p.Status = resp.StatusCode
	if p.RetryAfterMS == 0 {
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
			p.RetryAfterMS = int64(s) * 1000
		}
	}
	return p
}

// Bounds on how long an answer can make a retrying client wait.
const (
	defaultRetry = time.Second
	maxRetry     = time.Minute
)

// retryAfter says whether err asks to try again later, and when.
func retryAfter(err error) (time.Duration, bool) {
	p, ok := errors.AsType[*Problem](err)
	if !ok || (p.Status != http.StatusTooManyRequests && p.Status != http.StatusServiceUnavailable) {
		return 0, false
	}
	if p.RetryAfterMS <= 0 {
		return defaultRetry, true
	}
	return min(time.Duration(p.RetryAfterMS)*time.Millisecond, maxRetry), true
}
