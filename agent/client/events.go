package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// maxEvent bounds one line of the stream. A piece of output is far smaller.
const maxEvent = 4 << 20

// How often a broken stream is taken up again without one event in between: about a quarter of a minute, which an
// agent that restarts needs. Then the error is the caller's.
const (
	maxReconnects  = 12
	firstReconnect = 50 * time.Millisecond
	lastReconnect  = 2 * time.Second
)

// Events follows a job from event number from on, past its end: the sequence ends when the job is finished and its last
// event was given. A connection that breaks is taken up again after the last event, so that none is missed or given
// twice. An error is the last element. The stream only tells; whether a job succeeded is for Get to say.
func (c *Client) Events(ctx context.Context, id string, from int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		f := &follower{client: c, id: id, next: from}
		f.run(ctx, yield)
	}
}

// follower is one reader of one job's events.
type follower struct {
	client *Client
	id     string
	next   int64 // seq of the first event not yet given
	met    bool  // the agent answered once: what breaks after that is worth another try
}

// Reasons to end: the caller wants no more events, or there are no more.
var (
	errStop     = errors.New("stop")
	errFinished = errors.New("finished")
)

func (f *follower) run(ctx context.Context, yield func(api.Event, error) bool) {
	failures, finished := 0, false
	for {
		start := f.next
		err := f.stream(ctx, yield)
		if errors.Is(err, errStop) || errors.Is(err, errFinished) {
			return
		}
		if err == nil && finished {
			return
		}
		if err == nil {
			// The stream ended in good order. Only a finished job ends it for good; what was recorded between the
			// end of the stream and this answer is fetched by one more round.
			var job *api.Job
			if job, err = f.client.Get(ctx, f.id, 0); err == nil {
				finished = job.State == api.StateFinished
			}
		}
		if f.next > start {
			failures = 0
		}
		if err == nil && finished {
			continue
		}
		if err != nil && (ctx.Err() != nil || !f.met || final(err)) {
			yield(api.Event{}, err)
			return
		}
		failures++
		if failures > maxReconnects {
			yield(api.Event{}, f.gaveUp(err))
			return
		}
		if sleep(ctx, min(firstReconnect<<(failures-1), lastReconnect)) != nil {
			yield(api.Event{}, context.Cause(ctx))
			return
		}
	}
}

func (f *follower) gaveUp(err error) error {
	if err == nil {
		return fmt.Errorf("follow job %s: the agent ended the stream %d times without an event while the job runs", f.id, maxReconnects)
	}
	return fmt.Errorf("follow job %s: connection lost after event %d: %w", f.id, f.next-1, err)
}

// final says whether err will not be better the next time: an answer of the agent, unless it says "later".
func final(err error) bool {
	_, later := retryAfter(err)
	return (Class(err) != "" && !later) || errors.Is(err, ErrNotConfigured)
}

// stream gives the events of one connection. Nil means that the agent ended it in good order.
func (f *follower) stream(ctx context.Context, yield func(api.Event, error) bool) error {
	query := url.Values{"from": {strconv.FormatInt(f.next, 10)}}
	resp, err := f.client.once(ctx, http.MethodGet, jobPath(f.id, "/events"), query, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f.met = true
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue // a keep-alive
		}
		var e api.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// A connection that broke in the middle of a line ends in a torn line: the next round has it whole.
			return fmt.Errorf("event %d of job %s: %w", f.next, f.id, err)
		}
		if e.Seq < f.next {
			continue
		}
		f.next = e.Seq + 1
		if !yield(e, nil) {
			return errStop
		}
		if isFinal(e) {
			return errFinished
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read events of job %s: %w", f.id, err)
	}
	return nil
}

// isFinal says whether e is a job's last event.
func isFinal(e api.Event) bool {
	var state api.StateEvent
	return e.Type == "state" && json.Unmarshal(e.Data, &state) == nil && state.State == api.StateFinished
}

// Output is the text of a stdout or stderr event, decoded.
func Output(e api.Event) ([]byte, error) {
	var text string
	if err := json.Unmarshal(e.Data, &text); err != nil {
		return nil, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return Decode(text, e.Encoding)
}
