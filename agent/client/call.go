package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
)

// Bounds on what is read from an agent. A job's answer carries its output and its output files.
const (
	maxAnswer  = 512 << 20
	maxProblem = 1 << 20
)

// call sends one request and decodes the answer into out. Fields that this version does not know are left out, since
// the API may grow.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	resp, err := c.send(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(resp, out)
}

func decode(resp *http.Response, out any) error {
	limited := &io.LimitedReader{R: resp.Body, N: maxAnswer}
	if err := json.UnmarshalRead(limited, out); err != nil {
		if limited.N <= 0 {
			return fmt.Errorf("read answer of %s: larger than %d MiB", describe(resp.Request), maxAnswer>>20)
		}
		return fmt.Errorf("read answer of %s: %w", describe(resp.Request), err)
	}
	return nil
}

// send sends a request until the agent takes it, attempts are used up or ctx ends. The answer is a 2xx; anything else
// is an error.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		resp, err := c.once(ctx, method, path, query, "application/json", body)
		wait, again := retryAfter(err)
		if !again || attempt >= c.attempts {
			return resp, err
		}
		if sleepErr := sleep(ctx, wait); sleepErr != nil {
			return nil, err
		}
	}
}

// once sends a request a single time.
func (c *Client) once(ctx context.Context, method, path string, query url.Values, contentType string, body []byte) (*http.Response, error) {
	if c.err != nil {
		return nil, c.err
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readProblem(resp)
}

// unreached says which agent did not answer, in the caller's words: the URL that was really asked means nothing to those
// who named a socket.
func (c *Client) unreached(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return fmt.Errorf("agent at %s: %w", c.name, err)
}

// describe names a request in an error, without its query.
func describe(r *http.Request) string {
	return r.Method + " " + r.URL.Path
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
