package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// quiet is how long a stream of a running job must be silent for Recorded to take it that everything was replayed:
// the record is read without a pause.
const quiet = 300 * time.Millisecond

// Recorded gives the events that exist now and does not wait for more. Of a running job it may give a second more.
func (c *Client) Recorded(ctx context.Context, id string, from int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		job, age, err := c.jobAndAge(ctx, id)
		if err != nil {
			yield(api.Event{}, err)
			return
		}
		if job.State == api.StateFinished {
			c.Events(ctx, id, from)(yield) // ends by itself
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(quiet, func() { cancel(errStop) })
		defer timer.Stop()
		for event, err := range c.Events(ctx, id, from) {
			if err != nil && errors.Is(context.Cause(ctx), errStop) {
				return
			}
			isNew := err == nil && time.Duration(event.AtMS)*time.Millisecond > age
			ticking := timer.Stop() // the caller's own time does not count
			if isNew || !yield(event, err) {
				return
			}
			if ticking {
				timer.Reset(quiet)
			}
		}
	}
}

// jobAndAge answers a job, and how long ago it was posted by the agent's own clock, rounded up to the second that HTTP
// tells: the caller's clock may be another.
func (c *Client) jobAndAge(ctx context.Context, id string) (*api.Job, time.Duration, error) {
	resp, err := c.send(ctx, http.MethodGet, jobPath(id, ""), nil, nil)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	job := &api.Job{}
	if err := decode(resp, job); err != nil {
		return nil, 0, err
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return nil, 0, fmt.Errorf("read answer of %s: Date: %w", describe(resp.Request), err)
	}
	return job, now.Add(time.Second).Sub(job.CreatedAt), nil
}
