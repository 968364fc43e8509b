package agent

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// readEvents reads NDJSON events until the stream ends.
func (w *world) readEvents(path string) []api.Event {
	w.t.Helper()
	r := w.do("GET", path, "")
	if r.status != 200 || r.header.Get("Content-Type") != "application/x-ndjson" {
		w.t.Fatalf("%d %s %s", r.status, r.header, r.body)
	}
	return parseEvents(w.t, string(r.body))
}

func parseEvents(t testing.TB, text string) []api.Event {
	t.Helper()
	var list []api.Event
	for line := range strings.Lines(text) {
		var e api.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%v in %q", err, line)
		}
		list = append(list, e)
	}
	return list
}

func types(events []api.Event) string {
	var s []string
	for _, e := range events {
		s = append(s, e.Type)
	}
	return strings.Join(s, " ")
}

func TestEventsReplayFromEveryOffset(t *testing.T) {
	w := start(t, nil)
	w.post(`{"id":"j","command":["print","one","two","drei ü"]}`)
	all := w.readEvents("/v1/jobs/j/events")
	if got := types(all); got != "state state state stdout stdout stdout exit state" {
		t.Fatal(got)
	}
	for i, e := range all {
		if e.Seq != int64(i) {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
	}
	for from := range len(all) + 3 {
		got := w.readEvents(fmt.Sprintf("/v1/jobs/j/events?from=%d", from))
		want := all[min(from, len(all)):]
		if mustText(t, got) != mustText(t, want) {
			t.Errorf("from %d: %s, want %s", from, mustText(t, got), mustText(t, want))
		}
	}
	var state api.StateEvent
	if err := json.Unmarshal(all[len(all)-1].Data, &state); err != nil || state.State != api.StateFinished || state.Outcome != api.OutcomeOK || *state.ExitCode != 0 {
		t.Errorf("%s", all[len(all)-1].Data)
	}
	var exit api.ExitEvent
	if err := json.Unmarshal(all[6].Data, &exit); err != nil || exit.Cause != "exit" || *exit.ExitCode != 0 || exit.Signal != nil {
		t.Errorf("%s", all[6].Data)
	}
	for _, bad := range []string{"from=-1", "from=x"} {
		w.problem(w.do("GET", "/v1/jobs/j/events?"+bad, ""), "invalid", "from")
	}
}

func mustText(t *testing.T, events []api.Event) string {
	t.Helper()
	b, err := encodeJSON(events)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEventsCarryEveryByte(t *testing.T) {
	w := start(t, nil)
	w.post(`{"id":"j","command":["raw"]}`)
	events := w.readEvents("/v1/jobs/j/events?from=3")
	if got := types(events); got != "stdout stderr denial exit state" {
		t.Fatal(got)
	}
	for i, want := range []string{"a\xff", "gr\xc3"} {
		var text string
		if err := json.Unmarshal(events[i].Data, &text); err != nil {
			t.Fatal(err)
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || string(data) != want || events[i].Encoding != "base64" {
			t.Errorf("%q %v %s, want %q", data, err, events[i].Encoding, want)
		}
	}
	if !strings.Contains(string(events[2].Data), `"what":"ptrace"`) {
		t.Errorf("%s", events[2].Data)
	}
}

func TestEveryEndHasOneExitAndAFinalState(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxJobs = 1 })
	w.post(`{"id":"nostart","command":["nostart"]}`)
	w.post(`{"id":"panic","command":["panic"]}`)
	w.begin(`{"id":"wait","command":["wait"],"wait":false}`)
	w.begin(`{"id":"queued","command":["wait"],"wait":false}`)
	w.do("DELETE", "/v1/jobs/queued", "")
	w.running("wait")
	w.do("DELETE", "/v1/jobs/wait", "")
	for id, want := range map[string]string{
		"nostart": "state state exit state", "panic": "state state exit state", "queued": "state exit state", "wait": "state state state exit state",
	} {
		if got := types(w.readEvents("/v1/jobs/" + id + "/events")); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestEventsAreLive(t *testing.T) {
	w := start(t, nil)
	w.begin(`{"id":"j","command":["wait"],"wait":false}`)
	w.running("j")
	const readers = 5
	streams := make([]*bufio.Reader, readers)
	for i := range streams {
		resp, err := w.client.Get(w.base + "/v1/jobs/j/events?from=2")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		streams[i] = bufio.NewReader(resp.Body)
		if line, err := streams[i].ReadString('\n'); err != nil || !strings.Contains(line, `"running"`) {
			t.Errorf("%q %v", line, err)
		}
	}
	close(w.runner.letGo)
	for _, s := range streams {
		var rest strings.Builder
		if _, err := s.WriteTo(&rest); err != nil {
			t.Error(err)
		}
		if got := types(parseEvents(t, rest.String())); got != "exit state" {
			t.Error(got)
		}
	}
	// Who has seen the last event is answered with the result.
	if j := w.job(w.do("GET", "/v1/jobs/j", ""), 200); j.Result == nil {
		t.Errorf("%+v", j)
	}
}

func TestServerSentEvents(t *testing.T) {
	w := start(t, nil)
	w.post(`{"id":"j","command":["print","a\nb"]}`)
	req, err := http.NewRequest("GET", w.base+"/v1/jobs/j/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", "2")
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if _, err := bufio.NewReader(resp.Body).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), "id: 3\nevent: stdout\ndata: {\"seq\":3,") || !strings.HasSuffix(text.String(), "}\n\n") ||
		resp.Header.Get("Content-Type") != "text/event-stream" || strings.Count(text.String(), "\n\n") != 3 {
		t.Errorf("%q", text.String())
	}
}

// A reader that takes nothing holds a connection and a descriptor, and not the job.
func TestSlowReaderHoldsNothingUp(t *testing.T) {
	w := start(t, nil)
	w.begin(`{"id":"j","command":["wait"],"wait":false}`)
	w.running("j")
	c, err := net.Dial("unix", w.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /v1/jobs/j/events HTTP/1.1\r\nHost: x\r\n\r\n")
	w.post(`{"id":"spam","command":["spam"]}`)
	slow, err := net.Dial("unix", w.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "GET /v1/jobs/spam/events HTTP/1.1\r\nHost: x\r\n\r\n")
	began := time.Now()
	close(w.runner.letGo)
	if j := w.job(w.do("GET", "/v1/jobs/j?wait=10s", ""), 200); j.State != api.StateFinished || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", j.State, time.Since(began))
	}
	if j := w.post(`{"command":["spam"]}`); j.Result.Outcome != api.OutcomeOK {
		t.Errorf("%+v", j.Result)
	}
}

func TestReaderThatLeavesIsLetGo(t *testing.T) {
	w := start(t, nil)
	w.begin(`{"id":"j","command":["wait"],"wait":false}`)
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, "GET", w.base+"/v1/jobs/j/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := w.client.Do(req); err == nil {
			resp.Body.Close()
		}
		cancel()
	}
	close(w.runner.letGo)
	w.stop() // would hang on a reader that is still followed
}
