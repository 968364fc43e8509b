package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// Run posts a job and answers it finished.
func (c *Client) Run(ctx context.Context, r api.JobRequest) (*api.Job, error) {
	return c.post(ctx, r, true)
}

// Start posts a job and answers it as it stands, without waiting for its end.
func (c *Client) Start(ctx context.Context, r api.JobRequest) (*api.Job, error) {
	return c.post(ctx, r, false)
}

func (c *Client) post(ctx context.Context, r api.JobRequest, wait bool) (*api.Job, error) {
	r.Wait = &wait
	return c.job(ctx, http.MethodPost, "/v1/jobs", nil, r)
}

// Get answers a job as it stands. With a wait it answers when the job is finished or the wait is over.
func (c *Client) Get(ctx context.Context, id string, wait time.Duration) (*api.Job, error) {
	query := url.Values{}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	return c.job(ctx, http.MethodGet, jobPath(id, ""), query, nil)
}

// Wait answers a job when it is finished, however long that takes.
func (c *Client) Wait(ctx context.Context, id string) (*api.Job, error) {
	for {
		job, err := c.Get(ctx, id, 30*time.Second)
		if err != nil || job.State == api.StateFinished {
			return job, err
		}
	}
}

// Cancel ends a job and answers it finished: TERM, a grace time, then KILL of everything in it.
func (c *Client) Cancel(ctx context.Context, id string) (*api.Job, error) {
	return c.job(ctx, http.MethodDelete, jobPath(id, ""), nil, nil)
}

// ListOptions narrow List. Zero values do not.
type ListOptions struct {
	State  api.State
	Label  string // key:value
	Cursor string // of the page before
	Limit  int    // items a page
}

// List answers one page of jobs, newest first.
func (c *Client) List(ctx context.Context, o ListOptions) (*api.List[api.Job], error) {
	query := url.Values{}
	for key, value := range map[string]string{"state": string(o.State), "label": o.Label, "cursor": o.Cursor} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if o.Limit > 0 {
		query.Set("limit", strconv.Itoa(o.Limit))
	}
	list := &api.List[api.Job]{}
	if err := c.call(ctx, http.MethodGet, "/v1/jobs", query, nil, list); err != nil {
		return nil, err
	}
	return list, nil
}

// Signal sends a signal, such as SIGTERM, to a running job's command.
func (c *Client) Signal(ctx context.Context, id, signal string) error {
	return c.discard(c.send(ctx, http.MethodPost, jobPath(id, "/signal"), nil, api.Signal{Signal: signal}))
}

// SetNetwork replaces a running job's egress rules. When it returns, they hold, and connections that they forbid have ended.
func (c *Client) SetNetwork(ctx context.Context, id string, n api.Network) error {
	return c.discard(c.send(ctx, http.MethodPut, jobPath(id, "/network"), nil, n))
}

// stdinChunk is how much one request carries of a stream: a stream may last for ever, a request may not.
const stdinChunk = 64 << 10

// Stdin feeds a job that was started with {"stdin": {"open": true}} from r until r ends, piece by piece as r gives it,
// and then sends EOF when eof is true.
func (c *Client) Stdin(ctx context.Context, id string, r io.Reader, eof bool) error {
	buf := make([]byte, stdinChunk)
	for {
		n, readErr := r.Read(buf)
		if n > 0 {
			if err := c.stdin(ctx, id, buf[:n], false); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return readErr
		}
	}
	if !eof {
		return nil
	}
	return c.stdin(ctx, id, []byte{}, true)
}

func (c *Client) stdin(ctx context.Context, id string, data []byte, eof bool) error {
	query := url.Values{}
	if eof {
		query.Set("close", "true")
	}
	return c.discard(c.once(ctx, http.MethodPost, jobPath(id, "/stdin"), query, "application/octet-stream", data))
}

func (c *Client) job(ctx context.Context, method, path string, query url.Values, in any) (*api.Job, error) {
	job := &api.Job{}
	if err := c.call(ctx, method, path, query, in, job); err != nil {
		return nil, err
	}
	return job, nil
}

// discard reads an answer to its end, so that its connection can be used again.
func (c *Client) discard(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem))
	return err
}

func jobPath(id, rest string) string { return "/v1/jobs/" + url.PathEscape(id) + rest }
