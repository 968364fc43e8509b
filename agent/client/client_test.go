package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

func TestUnusableURL(t *testing.T) {
	for _, tc := range []struct{ url, want string }{
		{"", "SANDBOX_MANAGER_URL"},
		{"unix://relative/path", "unix:///path"},
		{"unix:", "unix:///path"},
		{"ftp://host", "http(s)://host:port"},
		{"http://", "http(s)://host:port"},
		{"/run/tolbooth.sock", "unix:///path"},
		{"http://user:secret@host", "http(s)://host:port"},
		{"http://user:secret@host:port", "not a URL"},
		{"http://a b", "not a URL"},
	} {
		c := New(tc.url, "")
		calls := map[string]func() error{
			"run":     func() error { _, err := c.Run(t.Context(), api.JobRequest{}); return err },
			"get":     func() error { _, err := c.Get(t.Context(), "x", 0); return err },
			"list":    func() error { _, err := c.List(t.Context(), ListOptions{}); return err },
			"network": func() error { return c.SetNetwork(t.Context(), "x", api.Network{}) },
			"signal":  func() error { return c.Signal(t.Context(), "x", "SIGTERM") },
			"stdin":   func() error { return c.Stdin(t.Context(), "x", strings.NewReader("a"), true) },
			"cancel":  func() error { _, err := c.Cancel(t.Context(), "x"); return err },
			"health":  func() error { _, err := c.Health(t.Context()); return err },
			"node":    func() error { _, err := c.Node(t.Context()); return err },
			"events": func() error {
				for _, err := range c.Events(t.Context(), "x", 0) {
					return err
				}
				return nil
			},
		}
		for name, call := range calls {
			err := call()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s with URL %q: %v, want an error with %q", name, tc.url, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: the error tells a password: %v", name, err)
			}
		}
	}
}

func TestRunAsksToWait(t *testing.T) {
	var bodies []string
	c := serve(t, map[string]http.HandlerFunc{"POST /v1/jobs": func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		answerJSON(w, `{"id":"j","state":"finished","a_newer_field":1,"result":{"outcome":"ok","exit_code":0}}`)
	}})
	job, err := c.Run(t.Context(), api.JobRequest{Command: []string{"true"}})
	if err != nil || job.Result == nil || job.Result.Outcome != api.OutcomeOK {
		t.Fatalf("Run = %+v, %v", job, err)
	}
	if _, err := c.Start(t.Context(), api.JobRequest{Command: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"command":["true"],"wait":true}`, `{"command":["true"],"wait":false}`}
	if strings.Join(bodies, "\n") != strings.Join(want, "\n") {
		t.Errorf("bodies %q, want %q", bodies, want)
	}
}

func TestTokenIsSent(t *testing.T) {
	var got string
	c := serve(t, map[string]http.HandlerFunc{"GET /v1/node": func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		answerJSON(w, `{}`)
	}})
	c.token = "tok"
	if _, err := c.Node(t.Context()); err != nil || got != "Bearer tok" {
		t.Errorf("Authorization %q, error %v", got, err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/node": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", 302) },
		"/elsewhere":   func(http.ResponseWriter, *http.Request) { followed = true },
	})
	if _, err := c.Node(t.Context()); err == nil || followed {
		t.Errorf("followed %v, error %v", followed, err)
	}
}

func TestProblems(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/jobs/gone": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 404, api.ProblemType, `{"title":"t","status":404,"class":"not_found","detail":"no job gone","hint":"look at ps"}`)
		},
		"GET /v1/jobs/proxy": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 502, "text/html", "<html>bad gateway")
		},
	})
	_, err := c.Get(t.Context(), "gone", 0)
	var p *Problem
	if !errors.As(err, &p) || p.Class != "not_found" || Class(err) != "not_found" || !strings.Contains(err.Error(), "no job gone (look at ps)") {
		t.Errorf("problem %#v", err)
	}
	_, err = c.Get(t.Context(), "proxy", 0)
	if Class(err) != "internal" || !strings.Contains(err.Error(), "502") || !strings.Contains(err.Error(), "bad gateway") {
		t.Errorf("foreign answer: %v", err)
	}
}

func TestRetryOnlyWhenAsked(t *testing.T) {
	calls := 0
	c := serve(t, map[string]http.HandlerFunc{"POST /v1/jobs": func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, _ := io.ReadAll(r.Body)
		if len(body) == 0 {
			t.Error("a repeated request lost its body")
		}
		if calls < 3 {
			answer(w, 429, api.ProblemType, `{"status":429,"class":"capacity","title":"full","detail":"full","retry_after_ms":5}`)
			return
		}
		answerJSON(w, `{"id":"j","state":"queued"}`)
	}})
	if _, err := c.Start(t.Context(), api.JobRequest{}); Class(err) != "capacity" || calls != 1 {
		t.Fatalf("without retrying: %v after %d calls", err, calls)
	}
	if _, err := c.Retrying(3).Start(t.Context(), api.JobRequest{}); err != nil || calls != 3 {
		t.Fatalf("with retrying: %v after %d calls", err, calls)
	}
}

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		status int
		ms     int64
		want   time.Duration
		again  bool
	}{
		{429, 250, 250 * time.Millisecond, true},
		{503, 0, time.Second, true},
		{503, 3600_000, time.Minute, true},
		{500, 250, 0, false},
		{409, 250, 0, false},
	} {
		got, again := retryAfter(&Problem{api.Problem{Status: tc.status, RetryAfterMS: tc.ms}})
		if got != tc.want || again != tc.again {
			t.Errorf("%d, %d ms: %v %v, want %v %v", tc.status, tc.ms, got, again, tc.want, tc.again)
		}
	}
}

func TestHealthOfAFailingAgentIsHealth(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{"GET /health": func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 503, "application/json; charset=utf-8", `{"status":"failing","problems":[{"what":"no jail","why":"w","fix":"f"}]}`)
	}})
	h, err := c.Health(t.Context())
	if err != nil || h.Status != "failing" || len(h.Problems) != 1 {
		t.Errorf("Health = %+v, %v", h, err)
	}
}

func TestWaitPollsUntilFinished(t *testing.T) {
	polls := 0
	c := serve(t, map[string]http.HandlerFunc{"GET /v1/jobs/j": func(w http.ResponseWriter, r *http.Request) {
		polls++
		if r.URL.Query().Get("wait") != "30s" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		if polls < 3 {
			answerJSON(w, `{"id":"j","state":"running"}`)
			return
		}
		answerJSON(w, `{"id":"j","state":"finished","result":{"outcome":"exit","exit_code":3}}`)
	}})
	job, err := c.Wait(t.Context(), "j")
	if err != nil || polls != 3 || *job.Result.ExitCode != 3 {
		t.Errorf("Wait = %+v, %v after %d polls", job, err, polls)
	}
}

func TestStdinIsSentPieceByPiece(t *testing.T) {
	var got []string
	c := serve(t, map[string]http.HandlerFunc{"POST /v1/jobs/j/stdin": func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, string(body)+"|"+r.URL.RawQuery)
		answerJSON(w, `{}`)
	}})
	r, w := io.Pipe()
	go func() {
		w.Write([]byte("one\n"))
		w.Write([]byte("two\n"))
		w.Close()
	}()
	if err := c.Stdin(t.Context(), "j", r, true); err != nil {
		t.Fatal(err)
	}
	if want := "one\n|,two\n|,|close=true"; strings.Join(got, ",") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCancelledContextEndsACall(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	c := serve(t, map[string]http.HandlerFunc{"GET /v1/node": func(http.ResponseWriter, *http.Request) { <-release }})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Node(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Node: %v", err)
	}
}
