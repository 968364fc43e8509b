package agent

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

// heartbeat is how often a silent SSE stream says that it is alive, for proxies that cut silent connections.
const heartbeat = 15 * time.Second

// events answers GET /v1/jobs/{id}/events: the spool from a sequence number on, and what comes to it, until the job is
// finished. Every reader has the file open for itself, so a slow one or a lost one costs nobody else anything.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.Get(r.PathValue("id"))
	if err != nil {
		return err
	}
	from, err := eventsFrom(r)
	if err != nil {
		return err
	}
	reader, err := spool.Open(j.spoolAt)
	if err != nil {
		if _, gone := s.jobs.Get(j.id); gone != nil {
			return gone
		}
		return err
	}
	defer reader.Close()
	out := newEventStream(w, r)
	if r.Method == http.MethodHead {
		return nil
	}
	if err := s.follow(r, j, reader, from, out); err != nil {
		// The head is sent: only a broken connection still says that the stream is not whole.
		if r.Context().Err() == nil {
			s.log.Error("event stream ended early", keyJob, j.id, keyErr, err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

// eventsFrom reads where to start. A browser that reconnects says the last event it has seen.
func eventsFrom(r *http.Request) (int64, error) {
	query, err := parameters(r, "from")
	if err != nil {
		return 0, err
	}
	if text := query.Get("from"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0, refuse(api.ClassInvalid, "from", "%s is not a sequence number", quoted(text))
		}
		return n, nil
	}
	if last, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64); err == nil && last >= 0 {
		return last + 1, nil
	}
	return 0, nil
}

// follow sends events until the final one, the end of a finished job's spool, or the reader's loss.
func (s *Server) follow(r *http.Request, j *job, reader *spool.Reader, from int64, out *eventStream) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		grown, done := j.wake.wait(), j.isDone() // before reading, so that nothing comes between
		final, err := s.sendAll(j, reader, from, out)
		if err != nil || final {
			return errors.Join(err, out.flush())
		}
		if err := out.flush(); err != nil || done {
			return err
		}
		select {
		case <-grown:
		case <-beat.C:
			if err := out.beat(); err != nil {
				return err
			}
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

// sendAll sends what is there now, and reports whether the final event was among it.
func (s *Server) sendAll(j *job, reader *spool.Reader, from int64, out *eventStream) (final bool, err error) {
	if reader.Seq() < from {
		if err := reader.SkipTo(from); err == io.EOF {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	for {
		rec, err := reader.Next()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		event, final := s.event(j, rec)
		if err := out.send(event); err != nil || final {
			return final, err
		}
	}
}

// event words one record. Output is text where the record is UTF-8, else base64: a record may end inside a character.
func (s *Server) event(j *job, rec spool.Record) (e api.Event, final bool) {
	e = api.Event{Seq: rec.Seq, AtMS: max(rec.AtUS, 0) / 1000}
	switch rec.Kind {
	case spool.Stdout, spool.Stderr:
		e.Type = map[spool.Kind]string{spool.Stdout: "stdout", spool.Stderr: "stderr"}[rec.Kind]
		text := ""
		if e.Encoding = "utf-8"; utf8.Valid(rec.Payload) {
			text = string(rec.Payload)
		} else {
			e.Encoding, text = "base64", base64.StdEncoding.EncodeToString(rec.Payload)
		}
		e.Data = s.encodeData(text)
	case spool.Denial:
		e.Type = "denial"
		d, err := s.words(j.meta, rec.Payload)
		if err != nil {
			d = api.Denial{Layer: "syscall", What: "a refused call whose record cannot be read", Count: 1}
		}
		e.Data = s.encodeData(d)
	case spool.Refusal:
		e.Type, e.Data = "denial", rec.Payload
	case spool.Exit:
		e.Type, e.Data = "exit", s.encodeData(exitEvent(rec.Payload))
	case spool.State:
		e.Type, e.Data = "state", rec.Payload
		var state api.StateEvent
		final = json.Unmarshal(rec.Payload, &state) == nil && state.State == api.StateFinished
	}
	if !jsontext.Value(e.Data).IsValid() {
		e.Data = jsontext.Value("null")
	}
	return e, final
}

func (s *Server) encodeData(v any) jsontext.Value {
	data, err := encodeJSON(v)
	if err != nil {
		s.log.Error("encode an event", keyErr, err)
		return jsontext.Value("null")
	}
	return data
}

// exitEvent is the warden's account of the end as the API tells it.
func exitEvent(payload []byte) api.ExitEvent {
	var x jail.Exit
	if err := json.Unmarshal(payload, &x); err != nil {
		return api.ExitEvent{Cause: string(jail.CauseLost), Detail: "the record of the end cannot be read"}
	}
	e := api.ExitEvent{Cause: string(x.Cause), StdoutBytes: x.StdoutBytes, StderrBytes: x.StderrBytes, Truncated: x.Truncated, Detail: x.Error}
	if x.Step != "" {
		e.Detail = x.Step + ": " + x.Error
	}
	if x.Cause == jail.CauseExit {
		e.ExitCode = &x.Code
	}
	if x.Signal != 0 {
		name := signalName(unix.Signal(x.Signal))
		e.Signal = &name
	}
	return e
}

// eventStream writes events as NDJSON or as server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sse     bool
	buf     []byte
}

func newEventStream(w http.ResponseWriter, r *http.Request) *eventStream {
	out := &eventStream{w: w, control: http.NewResponseController(w), sse: strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	if out.sse {
		h.Set("Content-Type", "text/event-stream")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return out
}

// streamBuffer is how much is gathered before it is written.
const streamBuffer = 64 << 10

func (o *eventStream) send(e api.Event) error {
	data, err := encodeJSON(e)
	if err != nil {
		return err
	}
	if o.sse {
		o.buf = fmt.Appendf(o.buf, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data)
	} else {
		o.buf = append(append(o.buf, data...), '\n')
	}
	if len(o.buf) < streamBuffer {
		return nil
	}
	return o.flush()
}

func (o *eventStream) beat() error {
	if !o.sse {
		return nil
	}
	o.buf = append(o.buf, ": \n\n"...)
	return o.flush()
}

func (o *eventStream) flush() error {
	if len(o.buf) > 0 {
		if _, err := o.w.Write(o.buf); err != nil {
			return err
		}
		o.buf = o.buf[:0]
	}
	return o.control.Flush()
}
