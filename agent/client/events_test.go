package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stream is a fake events route: each connection gives some events of a fixed record and then breaks or ends.
type stream struct {
	t       *testing.T
	record  []string // lines, seq = index
	per     int      // events a connection
	cut     bool     // cut the connection instead of ending the answer
	froms   []int
	endless bool
}

func (s *stream) events(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil {
		s.t.Error(err)
	}
	s.froms = append(s.froms, from)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(200)
	to := min(from+s.per, len(s.record))
	for _, line := range s.record[min(from, len(s.record)):to] {
		fmt.Fprintln(w, line)
	}
	w.(http.Flusher).Flush()
	if s.endless {
		<-r.Context().Done()
	}
	if s.cut && to < len(s.record) {
		fmt.Fprint(w, `{"seq":99,"ty`) // a torn line
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func (s *stream) job(w http.ResponseWriter, _ *http.Request) {
	state := "running"
	if n := len(s.froms); n > 0 && s.froms[n-1]+s.per >= len(s.record) && !s.endless {
		state = "finished"
	}
	answerJSON(w, `{"id":"j","state":"`+state+`","created_at":"2026-01-02T03:04:05Z"}`)
}

func record(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"seq":%d,"at_ms":1,"type":"stdout","data":"%d;","encoding":"utf-8"}`, i, i)
	}
	return lines
}

func (s *stream) client() *Client {
	return serve(s.t, map[string]http.HandlerFunc{"GET /v1/jobs/j/events": s.events, "GET /v1/jobs/j": s.job})
}

func TestEventsAreGivenOnceAcrossBrokenConnections(t *testing.T) {
	var want strings.Builder
	for i := range 23 {
		fmt.Fprintf(&want, "%d;", i)
	}
	for _, tc := range []struct {
		name string
		s    stream
	}{
		{"whole", stream{per: 100}},
		{"ends early", stream{per: 5}},
		{"breaks", stream{per: 5, cut: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.s
			s.t, s.record = t, record(23)
			var got strings.Builder
			for e, err := range s.client().Events(t.Context(), "j", 0) {
				if err != nil {
					t.Fatal(err)
				}
				out, err := Output(e)
				if err != nil {
					t.Fatal(err)
				}
				got.Write(out)
			}
			if got.String() != want.String() {
				t.Errorf("got %q after connections from %v", got.String(), s.froms)
			}
		})
	}
}

func TestEventsEndWithTheFinishedState(t *testing.T) {
	s := &stream{t: t, record: append(record(1), `{"seq":1,"at_ms":1,"type":"state","data":{"state":"finished","outcome":"ok"}}`), per: 2, endless: true}
	n := 0
	for _, err := range s.client().Events(t.Context(), "j", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 || len(s.froms) != 1 {
		t.Errorf("%d events over %d connections", n, len(s.froms))
	}
}

func TestEventsEndWithTheCaller(t *testing.T) {
	s := &stream{t: t, record: record(3), per: 3, endless: true}
	n := 0
	for _, err := range s.client().Events(t.Context(), "j", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var last error
	for _, err := range s.client().Events(ctx, "j", 0) {
		last = err
	}
	if !errors.Is(last, context.DeadlineExceeded) {
		t.Errorf("the last element is %v, want the deadline", last)
	}
}

func TestEventsOfNoJob(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{"GET /v1/jobs/j/events": func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 404, "application/problem+json", `{"status":404,"class":"not_found","title":"t","detail":"d"}`)
	}})
	n := 0
	for _, err := range c.Events(t.Context(), "j", 0) {
		n++
		if Class(err) != "not_found" {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d elements, want 1", n)
	}
}

func TestNoAgentIsAnErrorAtOnce(t *testing.T) {
	start := time.Now()
	for _, err := range New("unix:///nonexistent/socket", "").Events(t.Context(), "j", 0) {
		if err == nil || !strings.Contains(err.Error(), "unix:///nonexistent/socket") {
			t.Errorf("got %v", err)
		}
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestRecordedDoesNotWaitForMore(t *testing.T) {
	s := &stream{t: t, record: record(4), per: 4, endless: true}
	n := 0
	for _, err := range s.client().Recorded(t.Context(), "j", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 4 {
		t.Errorf("%d events, want 4", n)
	}
}

func TestRecordedOfAJobThatNeverPauses(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/jobs/j": func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, `{"id":"j","state":"running","created_at":"`+time.Now().Format(time.RFC3339Nano)+`"}`)
		},
		"GET /v1/jobs/j/events": func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			for i := 0; r.Context().Err() == nil; i++ {
				fmt.Fprintf(w, `{"seq":%d,"at_ms":%d,"type":"stdout","data":"x"}`+"\n", i, time.Since(start).Milliseconds())
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		},
	})
	start := time.Now()
	for _, err := range c.Recorded(t.Context(), "j", 0) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("took %v", took)
	}
}
