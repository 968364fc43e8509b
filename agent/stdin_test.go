package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

func TestStdin(t *testing.T) {
	w := start(t, nil)
	for body, want := range map[string]string{
		`{"command":["cat"]}`:                                                 "",
		`{"command":["cat"],"stdin":""}`:                                      "",
		`{"command":["cat"],"stdin":"5\n"}`:                                   "5\n",
		`{"command":["cat"],"stdin":"aGk=","stdin_encoding":"base64"}`:        "hi",
		`{"command":["cat"],"stdin":"` + strings.Repeat("x", 60_000) + `"}`:   strings.Repeat("x", 60_000),
		`{"command":["cat"],"stdin":{"open":false},"stdin_encoding":"utf-8"}`: "",
	} {
		if j := w.post(body); j.Result.Stdout != want {
			t.Errorf("%.80s: %.80q", body, j.Result.Stdout)
		}
	}
	w.problem(w.do("POST", "/v1/jobs", `{"command":["cat"],"stdin":"!","stdin_encoding":"base64"}`), "invalid", "stdin")
	w.problem(w.do("POST", "/v1/jobs", `{"command":["cat"],"stdin":"x","stdin_encoding":"latin1"}`), "invalid", "stdin_encoding")
	w.problem(w.do("POST", "/v1/jobs", `{"command":["cat"],"stdin":{"open":true},"stdin_encoding":"utf-8"}`), "invalid", "stdin_encoding")
}

func TestOpenStdin(t *testing.T) {
	w := start(t, nil)
	w.begin(`{"id":"j","command":["cat"],"stdin":{"open":true},"wait":false}`)
	r := w.do("POST", "/v1/jobs/j/stdin", "one ")
	var taken api.StdinTaken
	if err := json.Unmarshal(r.body, &taken); err != nil || taken != (api.StdinTaken{Bytes: 4}) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := w.do("POST", "/v1/jobs/j/stdin?close=true", strings.Repeat("two", 50_000)); r.status != 200 || !strings.Contains(string(r.body), `"closed":true`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	j := w.job(w.do("GET", "/v1/jobs/j?wait=10s", ""), 200)
	if j.Result == nil || j.Result.Stdout != "one "+strings.Repeat("two", 50_000) {
		t.Errorf("%+v", j.Result)
	}
	w.problem(w.do("POST", "/v1/jobs/j/stdin", "more"), "conflict", "")
	w.begin(`{"id":"closed","command":["wait"],"wait":false}`)
	w.problem(w.do("POST", "/v1/jobs/closed/stdin", "x"), "conflict", "")
	w.problem(w.do("POST", "/v1/jobs/closed/stdin?close=1", "x"), "invalid", "close")
}

func TestFullPipeAnswers(t *testing.T) {
	w := start(t, nil)
	w.begin(`{"id":"deaf","command":["wait"],"stdin":{"open":true},"wait":false}`)
	w.running("deaf")
	j, err := w.server.jobs.Get("deaf")
	if err != nil {
		t.Fatal(err)
	}
	j.stdin.stall = 50 * time.Millisecond
	p := w.problem(w.do("POST", "/v1/jobs/deaf/stdin", strings.Repeat("x", 200_000)), "conflict", "")
	var taken int
	_, after, _ := strings.Cut(p.Detail, "; ")
	if _, err := fmt.Sscanf(after, "%d bytes", &taken); err != nil || taken < 32<<10 || taken > 64<<10 {
		t.Errorf("%d taken, %v: %s", taken, err, p.Detail)
	}
	// The end of the job lets a request go that waits for room.
	j.stdin.stall = time.Minute
	answered := make(chan response, 1)
	go func() {
		r, err := w.try("POST", "/v1/jobs/deaf/stdin", "more")
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	time.Sleep(50 * time.Millisecond)
	w.do("DELETE", "/v1/jobs/deaf", "")
	w.problem(<-answered, "conflict", "")
}

func TestStdinStreams(t *testing.T) {
	w := start(t, nil)
	w.begin(`{"id":"j","command":["cat"],"stdin":{"open":true},"wait":false}`)
	src, feed := io.Pipe()
	req, err := http.NewRequest("POST", w.base+"/v1/jobs/j/stdin?close=true", src)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		resp, err := w.client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	for range 3 {
		if _, err := feed.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	feed.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if j := w.job(w.do("GET", "/v1/jobs/j?wait=10s", ""), 200); j.Result.Stdout != "line\nline\nline\n" {
		t.Errorf("%+v", j.Result)
	}
}
