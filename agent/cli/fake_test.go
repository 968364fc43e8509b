package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// fakeAgent answers the API with one scripted job.
type fakeAgent struct {
	socket string
	result string   // JSON of the result, once finished
	events []string // NDJSON lines
	refuse string   // a problem that POST answers instead

	mu       sync.Mutex
	request  api.JobRequest
	stdin    strings.Builder
	eof      chan struct{} // when not nil: closed when the job's input ended; the events wait for it
	cancel   chan struct{} // closed by DELETE
	signals  []string
	finished bool
}

func newFakeAgent(t *testing.T) *fakeAgent {
	t.Helper()
	f := &fakeAgent{
		socket: filepath.Join(t.TempDir(), "s"),
		result: `{"outcome":"ok","exit_code":0}`,
		cancel: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", f.post)
	mux.HandleFunc("GET /v1/jobs", f.list)
	mux.HandleFunc("GET /v1/jobs/{id}", f.get)
	mux.HandleFunc("DELETE /v1/jobs/{id}", f.delete)
	mux.HandleFunc("GET /v1/jobs/{id}/events", f.stream)
	mux.HandleFunc("POST /v1/jobs/{id}/stdin", f.input)
	mux.HandleFunc("POST /v1/jobs/{id}/signal", f.signal)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		f.answer(w, `{"status":"degraded","version":"v9","jail":{"mode":"syd","grade":"syd"},"problems":[{"what":"flush is late","why":"w","fix":"f"}]}`)
	})
	listener, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	server.Start()
	t.Cleanup(server.Close)
	return f
}

func (f *fakeAgent) answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, body)
}

func (f *fakeAgent) job() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.finished {
		return `{"id":"j1","state":"running","result":null,"created_at":"2026-01-02T03:04:05Z","finished_at":null,"labels":{}}`
	}
	return `{"id":"j1","state":"finished","result":` + f.result + `,"created_at":"2026-01-02T03:04:05Z","finished_at":"2026-01-02T03:04:06Z","labels":{"tenant":"a\u001b[2Jcme"}}`
}

func (f *fakeAgent) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = true
}

func (f *fakeAgent) post(w http.ResponseWriter, r *http.Request) {
	if f.refuse != "" {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(422)
		io.WriteString(w, f.refuse)
		return
	}
	f.mu.Lock()
	err := json.UnmarshalRead(r.Body, &f.request, json.RejectUnknownMembers(true))
	f.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	f.answer(w, f.job())
}

func (f *fakeAgent) list(w http.ResponseWriter, _ *http.Request) {
	f.answer(w, `{"items":[`+f.job()+`],"next_cursor":null}`)
}

func (f *fakeAgent) get(w http.ResponseWriter, _ *http.Request) { f.answer(w, f.job()) }

func (f *fakeAgent) delete(w http.ResponseWriter, _ *http.Request) {
	close(f.cancel)
	f.finish()
	f.answer(w, f.job())
}

func (f *fakeAgent) stream(w http.ResponseWriter, r *http.Request) {
	flush := w.(http.Flusher)
	w.WriteHeader(200)
	if r.URL.Query().Get("from") == "0" {
		for _, line := range f.events {
			fmt.Fprintln(w, line)
		}
	}
	flush.Flush()
	if f.eof != nil {
		select {
		case <-f.eof:
		case <-f.cancel:
		case <-r.Context().Done():
			return
		}
	}
	f.finish()
}

func (f *fakeAgent) input(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.stdin.Write(body)
	f.mu.Unlock()
	if r.URL.Query().Get("close") == "true" {
		close(f.eof)
	}
	f.answer(w, `{}`)
}

func (f *fakeAgent) signal(w http.ResponseWriter, r *http.Request) {
	var s api.Signal
	if err := json.UnmarshalRead(r.Body, &s); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	f.signals = append(f.signals, s.Signal)
	w.WriteHeader(204)
}

// tolbooth runs one command line against the fake agent.
func (f *fakeAgent) tolbooth(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return tolbooth(t, map[string]string{"SANDBOX_MANAGER_URL": "unix://" + f.socket}, stdin, args...)
}

func tolbooth(t *testing.T, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), append([]string{"tolbooth"}, args...), Options{
		Version: "v1-test",
		Stdin:   strings.NewReader(stdin),
		Stdout:  &out,
		Stderr:  &errs,
		Getenv:  func(name string) string { return env[name] },
		Configured: func(c *cli.Context) (Configured, error) {
			if c.String("backend") == "docker" {
				return Configured{}, errors.New("SANDBOX_BACKEND: not one of: syd, minimal")
			}
			return Configured{Backend: cmp.Or(c.String("backend"), "syd"), State: c.String("state")}, nil
		},
	})
	return code, out.String(), errs.String()
}
