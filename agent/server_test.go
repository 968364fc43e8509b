package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/probe"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// world is a server on a real unix socket, with a runner that needs no jail.
type world struct {
	t       testing.TB
	cfg     Config
	runner  *fakeRunner
	server  *Server
	client  *http.Client
	base    string
	signals chan os.Signal
	ended   chan error
	log     *syncBuffer
	boom    atomic.Bool // what the spine gives panics

	mu     sync.Mutex
	report report
	faults []string
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func testConfig(t testing.TB) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "tb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg := DefaultConfig()
	cfg.set = map[string]bool{}
	cfg.Socket, cfg.State = filepath.Join(dir, "s"), filepath.Join(dir, "state")
	cfg.MaxJobs, cfg.Queue, cfg.Prepared = 4, 8, 0
	cfg.Max.CPUs = 2
	return cfg
}

// start serves cfg until the test ends.
func start(t testing.TB, change func(*Config)) *world {
	t.Helper()
	cfg := testConfig(t)
	if change != nil {
		change(&cfg)
	}
	return startConfig(t, cfg)
}

func startConfig(t testing.TB, cfg Config) *world {
	t.Helper()
	w := &world{
		t: t, cfg: cfg, runner: newFakeRunner(), signals: make(chan os.Signal, 4), ended: make(chan error, 1), log: &syncBuffer{},
		report: report{Kernel: "6.1", Arch: "amd64", Modes: map[jail.Mode]modeReport{
			jail.Syd:     {Grade: "syd", Layers: map[string]api.Layer{"seccomp": {Status: "ok"}}},
			jail.Minimal: {Grade: "minimal", Layers: map[string]api.Layer{}},
		}},
	}
	var err error
	w.server, err = newServer(cfg, serverParts{
		Runner: w.runner, Log: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Report: func() report {
			if w.boom.Load() {
				panic("secret inside")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.report
		},
		Words: func(_ record, p []byte) (api.Denial, error) {
			if w.boom.Load() {
				panic("secret inside")
			}
			var d jail.Denial
			err := json.Unmarshal(p, &d)
			return api.Denial{Layer: "syscall", What: "ptrace", Program: d.Program, Count: 1}, err
		},
		Fault: func(step string, err error) { w.mu.Lock(); defer w.mu.Unlock(); w.faults = append(w.faults, step) },
		Programs: []probe.Language{
			{Name: "python", Program: "/usr/bin/python3"}, {Name: "javascript", Program: "/usr/bin/node", Version: "v20.1.0"},
			{Name: "c", Program: "/usr/bin/gcc"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.server.Listen(); err != nil {
		t.Fatal(err)
	}
	go func() { w.ended <- w.server.Run(w.signals) }()
	w.base = "http://tolbooth"
	w.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", cfg.Socket)
	}}}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		if w.ended == nil {
			return
		}
		w.signals <- syscall.SIGTERM
		w.signals <- syscall.SIGTERM
		if err := <-w.ended; err != nil {
			t.Error("the server ended with: ", err)
		}
	})
	return w
}

// stop sends SIGTERM and waits for the end.
func (w *world) stop() {
	w.t.Helper()
	w.signals <- syscall.SIGTERM
	if err := <-w.ended; err != nil {
		w.t.Error("the server ended with: ", err)
	}
	w.ended = nil
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func (w *world) do(method, path, body string) response {
	w.t.Helper()
	r, err := w.try(method, path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) try(method, path, body string) (response, error) {
	var src io.Reader
	if body != "" {
		src = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, w.base+path, src)
	if err != nil {
		return response{}, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, maps.Clone(resp.Header), data}, err
}

// job decodes an answer that must be a job.
func (w *world) job(r response, status int) api.Job {
	w.t.Helper()
	if r.status != status {
		w.t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	var j api.Job
	if err := json.Unmarshal(r.body, &j); err != nil {
		w.t.Fatalf("%v in %s", err, r.body)
	}
	return j
}

func (w *world) post(body string) api.Job {
	w.t.Helper()
	return w.job(w.do("POST", "/v1/jobs", body), 200)
}

func (w *world) begin(body string) api.Job {
	w.t.Helper()
	return w.job(w.do("POST", "/v1/jobs", body), 202)
}

// problem decodes an answer that must be a problem of a class, about a field.
func (w *world) problem(r response, class, field string) api.Problem {
	w.t.Helper()
	var p api.Problem
	if err := json.Unmarshal(r.body, &p); err != nil {
		w.t.Fatalf("%v in %d %s", err, r.status, r.body)
	}
	if p.Class != class || p.Field != field || p.Status != r.status || r.header.Get("Content-Type") != api.ProblemType || p.Detail == "" {
		w.t.Errorf("want %s about %q, got status %d: %s", class, field, r.status, r.body)
	}
	return p
}

func (w *world) running(id string) {
	w.t.Helper()
	eventually(w.t, id+" runs", func() bool {
		return w.job(w.do("GET", "/v1/jobs/"+id, ""), 200).State == api.StateRunning
	})
}

func TestHealthAndNode(t *testing.T) {
	w := start(t, nil)
	began := time.Now()
	r := w.do("GET", "/health", "")
	if took := time.Since(began); r.status != 200 || took > 500*time.Millisecond || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d after %v: %s", r.status, took, r.body)
	}
	for _, want := range []string{`"status":"ok"`, `"problems":[]`, `"seccomp":"ok"`, `"max":4`, `"mode":"syd"`} {
		if !strings.Contains(string(r.body), want) {
			t.Errorf("health lacks %s: %s", want, r.body)
		}
	}
	n := w.do("GET", "/v1/node", "")
	for _, want := range []string{`"wall":"1m"`, `"memory":"512Mi"`, `"python":{"available":true`, `"typescript":{"available":false`, `"HOME":"/workspace"`} {
		if !strings.Contains(string(n.body), want) {
			t.Errorf("node lacks %s: %s", want, n.body)
		}
	}
	if r := w.do("HEAD", "/health", ""); r.status != 200 || len(r.body) != 0 {
		t.Errorf("HEAD: %d %s", r.status, r.body)
	}

	w.mu.Lock()
	w.report.Modes = map[jail.Mode]modeReport{jail.Syd: {Lacks: "seccomp: not built"}}
	w.mu.Unlock()
	if r := w.do("GET", "/health", ""); r.status != 503 || !strings.Contains(string(r.body), `"status":"failing"`) || !strings.Contains(string(r.body), "not built") {
		t.Errorf("%d %s", r.status, r.body)
	}
	p := w.problem(w.do("POST", "/v1/jobs", `{"command":["print"]}`), "unavailable", "")
	if !strings.Contains(p.Detail, "not built") {
		t.Error(p.Detail)
	}
}

func TestMetrics(t *testing.T) {
	w := start(t, nil)
	w.post(`{"command":["print","x"]}`)
	w.do("GET", "/nothing", "")
	text := string(w.do("GET", "/metrics", "").body)
	for _, want := range []string{
		`tolbooth_jobs_total{outcome="ok"} 1`, `tolbooth_jobs_total{outcome="agent_lost"} 0`, `tolbooth_jobs_running 0`,
		`tolbooth_http_problems_total{class="not_found"} 1`, `tolbooth_denials_total{layer="dns"} 0`, `tolbooth_job_step_seconds_count{step="run"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "job_id") {
		t.Error("a job id is a label")
	}
}

func TestRoutesThatAreNot(t *testing.T) {
	w := start(t, nil)
	w.problem(w.do("GET", "/v1/nothing", ""), "not_found", "")
	w.problem(w.do("GET", "/v1/jobs/none", ""), "not_found", "")
	w.problem(w.do("GET", "/v1/jobs/UPPER", ""), "not_found", "")
	w.problem(w.do("DELETE", "/v1/jobs/none", ""), "not_found", "")
	w.problem(w.do("GET", "/v1/jobs/none/events", ""), "not_found", "")
	w.problem(w.do("POST", "/v1/jobs/none/stdin", "x"), "not_found", "")
	w.problem(w.do("POST", "/v1/jobs/none/signal", `{"signal":"SIGTERM"}`), "not_found", "")
	for _, path := range []string{"/v1/sessions", "/v1/sessions/x/exec", "/v1/workspaces", "/v1/workspaces/a/snapshots", "/v1/plugins/p/call"} {
		w.problem(w.do("POST", path, "{}"), "unsupported", "")
	}
	w.problem(w.do("PUT", "/v1/jobs/x/network", "{}"), "not_found", "")

	for path, allow := range map[string]string{"/v1/jobs": "GET, HEAD, POST", "/health": "GET, HEAD", "/v1/jobs/x/stdin": "POST", "/v1/jobs/x": "DELETE, GET, HEAD"} {
		r := w.do("PATCH", path, "")
		if r.status != 405 || r.header.Get("Allow") != allow || r.header.Get("Content-Type") != api.ProblemType {
			t.Errorf("PATCH %s: %d, Allow %q, %s", path, r.status, r.header.Get("Allow"), r.body)
		}
	}
	if r := w.do("GET", "/openapi.yaml", ""); r.status != 200 || !bytes.Contains(r.body, []byte("openapi:")) {
		t.Errorf("%d", r.status)
	}
}

func TestHandlerPanicTellsNothing(t *testing.T) {
	w := start(t, nil)
	w.post(`{"id":"j","command":["raw"]}`)
	w.boom.Store(true)
	if r, err := w.try("GET", "/v1/jobs/j/events", ""); err == nil {
		t.Errorf("a stream that broke off looks whole: %s", r.body)
	}
	p := w.problem(w.do("GET", "/v1/node", ""), "internal", "")
	if strings.Contains(p.Detail, "secret") || !strings.Contains(w.log.String(), "secret inside") {
		t.Error(p.Detail)
	}
	if w.do("GET", "/v1/jobs", "").status != 200 {
		t.Error("the server is gone")
	}
}
