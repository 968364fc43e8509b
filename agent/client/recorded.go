package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// quiet is how long a stream of a running job must be silent for Recorded to take it that everything was replayed:
// the record is read without a pause.
const quiet = 300 * time.Millisecond

// Recorded gives the events that exist now and does not wait for more.
func (c *Client) Recorded(ctx context.Context, id string, from int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		job, err := c.Get(ctx, id, 0)
		if err != nil {
			yield(api.Event{}, err)
			return
		}
		timer := time.AfterFunc(quiet, func() { cancel(errStop) })
		defer timer.Stop()
		if job.State == api.StateFinished {
			timer.Stop() // the stream ends by itself
		}
		for event, err := range c.Events(ctx, id, from) {
			if err != nil && errors.Is(context.Cause(ctx), errStop) {
				return
			}
			ticking := timer.Stop() // the caller's own time does not count
			if !yield(event, err) {
				return
			}
			if ticking {
				timer.Reset(quiet)
			}
		}
	}
}
