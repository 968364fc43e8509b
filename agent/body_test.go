package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// recorder is the least ResponseWriter.
type recorder struct {
	header http.Header
	status int
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }

func contextWithPeer(t *testing.T, p peer) context.Context {
	return context.WithValue(t.Context(), peerKey{}, p)
}

func TestBodiesAreBounded(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxBody, c.BodyMemory = 4<<10, 10<<10 })
	pad := func(n int) string { return `{"command":["print"],"env":{"A":"` + strings.Repeat("x", n) + `"}}` }
	w.post(pad(3 << 10))
	w.problem(w.do("POST", "/v1/jobs", pad(4<<10)), "too_large", "")
	w.problem(w.do("POST", "/v1/jobs/x/signal", pad(4<<10)), "not_found", "")

	// Without an announced length.
	req, err := http.NewRequest("POST", w.base+"/v1/jobs", io.MultiReader(strings.NewReader(pad(1<<20))))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Error(resp.StatusCode)
	}

	// What jobs that do not run yet hold counts; it is given back.
	for i := 0; ; i++ {
		r := w.do("POST", "/v1/jobs", strings.Replace(pad(3<<10), "print", "wait", 1)[:0]+fmt.Sprintf(`{"id":"w%d","command":["wait"],"wait":false}`, i))
		if r.status != 202 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if w.server.jobs.Capacity().Queued == 3 {
			break
		}
	}
	refused := false
	for i := range 4 {
		r := w.do("POST", "/v1/jobs", fmt.Sprintf(`{"id":"q%d","wait":false,`, i)+pad(3 << 10)[1:])
		if r.status == 429 {
			w.problem(r, "capacity", "")
			refused = true
		}
	}
	if !refused {
		t.Error("bodies of waiting jobs are not counted")
	}
	close(w.runner.letGo)
	eventually(t, "the memory is given back", func() bool {
		w.server.budget.mu.Lock()
		defer w.server.budget.mu.Unlock()
		return w.server.budget.left == 10<<10
	})
	if r := w.do("POST", "/v1/jobs", pad(3<<10)); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestCompressedBodyIsRefused(t *testing.T) {
	w := start(t, nil)
	req, err := http.NewRequest("POST", w.base+"/v1/jobs", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 422 {
		t.Error(resp.StatusCode)
	}
}

func TestSlowBodyIsCutOff(t *testing.T) {
	w := start(t, nil)
	w.server.bodyTime = 50 * time.Millisecond
	c, err := net.Dial("unix", w.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), "400 Bad Request") || !strings.Contains(string(answer[:n]), "did not arrive") {
		t.Errorf("%v %s", err, answer[:n])
	}
	// The deadline of one body does not cut a long poll on the same connection.
	w.begin(`{"id":"j","command":["wait"],"wait":false}`)
	time.AfterFunc(200*time.Millisecond, func() { close(w.runner.letGo) })
	if j := w.post(`{"id":"j","command":["wait"]}`); j.State != api.StateFinished {
		t.Errorf("%+v", j)
	}
}
