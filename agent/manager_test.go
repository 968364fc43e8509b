package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

func stateFiles(t *testing.T, cfg Config) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cfg.State, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRetention(t *testing.T) {
	w := start(t, func(c *Config) { c.RetainJobs = 3; c.Retain = time.Hour })
	for i := range 6 {
		w.post(fmt.Sprintf(`{"id":"j%d","command":["print"]}`, i))
	}
	eventually(t, "old jobs are gone", func() bool { return len(stateFiles(t, w.cfg)) == 6 })
	want := []string{"j3.json", "j3.spool", "j4.json", "j4.spool", "j5.json", "j5.spool"}
	if got := stateFiles(t, w.cfg); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	p := w.problem(w.do("GET", "/v1/jobs/j0", ""), "not_found", "")
	if !strings.Contains(p.Hint, "at most 3") {
		t.Error(p.Hint)
	}
	w.server.jobs.prune(time.Now().Add(2 * time.Hour))
	if got := stateFiles(t, w.cfg); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestNextAgentKnowsFinishedJobs(t *testing.T) {
	cfg := testConfig(t)
	w := startConfig(t, cfg)
	before := w.do("POST", "/v1/jobs", `{"id":"j","command":["raw"],"labels":{"a":"b"}}`)
	big := w.post(`{"id":"big","command":["spam"]}`)
	events := w.readEvents("/v1/jobs/j/events")
	w.stop()

	next := startConfig(t, cfg)
	if after := next.do("GET", "/v1/jobs/j", ""); string(after.body) != string(before.body) {
		t.Errorf("%s\nwas\n%s", after.body, before.body)
	}
	if j := next.job(next.do("GET", "/v1/jobs/big", ""), 200); j.Result.Stdout != big.Result.Stdout {
		t.Error("a large result changed")
	}
	if got := next.readEvents("/v1/jobs/j/events"); mustText(t, got) != mustText(t, events) {
		t.Errorf("%s", mustText(t, got))
	}
	// The same request is still the same job.
	next.post(`{"id":"j","command":["raw"],"labels":{"a":"b"}}`)
	next.problem(next.do("POST", "/v1/jobs", `{"id":"j","command":["raw"]}`), "conflict", "id")
	if got := next.runner.started(); len(got) != 0 {
		t.Errorf("ran %v again", got)
	}
	if j := next.post(`{"command":["print"]}`); !j.CreatedAt.After(big.CreatedAt) {
		t.Error("the order of lists is broken")
	}
}

func TestKilledAgentLosesNoOutput(t *testing.T) {
	cfg := testConfig(t)
	dir := filepath.Join(cfg.State, "jobs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// What an agent that was killed leaves: a record of each, and spools that end anywhere.
	leave := func(id string, fill func(*spool.Writer)) {
		t.Helper()
		rec := record{Version: 1, ID: id, Request: strings.Repeat("00", 32), CreatedAt: time.Now(), Mode: jail.Syd, Output: 1 << 20}
		line, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, id+".json"), append(line, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		if fill == nil {
			return
		}
		f, err := os.OpenFile(filepath.Join(dir, id+".spool"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fill(spool.NewWriter(f, time.Now()))
	}
	put := func(w *spool.Writer, kind spool.Kind, v any) {
		t.Helper()
		payload, ok := v.(string)
		if !ok {
			payload = string(mustEncode(v))
		}
		if err := w.Append(kind, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	leave("nospool", nil)
	leave("midway", func(w *spool.Writer) {
		put(w, spool.State, api.StateEvent{State: api.StateQueued})
		put(w, spool.State, api.StateEvent{State: api.StateRunning})
		put(w, spool.Stdout, "half of ")
		put(w, spool.Stderr, "oops")
	})
	torn, err := os.OpenFile(filepath.Join(dir, "midway.spool"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	torn.Write([]byte{50, 0, 0, 0, 2, 't', 'b', 1, 0})
	torn.Close()
	leave("ended", func(w *spool.Writer) {
		put(w, spool.State, api.StateEvent{State: api.StateRunning})
		put(w, spool.Stdout, "all")
		put(w, spool.Exit, jail.Exit{Cause: jail.CauseExit, Code: 0, StdoutBytes: 3})
	})
	leave("half", nil)
	half, err := os.OpenFile(filepath.Join(dir, "half.json"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	half.WriteString(`{"id":"half","state":"fini`)
	half.Close()
	os.WriteFile(filepath.Join(dir, "torn.json"), []byte(`{"version":1,"id":"to`), 0o600)
	os.WriteFile(filepath.Join(dir, "orphan.spool"), nil, 0o600)
	os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{}\n"), 0o600)

	w := startConfig(t, cfg)
	for id, want := range map[string]struct{ stdout, detail, events string }{
		"nospool": {"", "was queued", "exit state"},
		"half":    {"", "was queued", "exit state"},
		"midway":  {"half of ", "was running", "state state stdout stderr exit state"},
		"ended":   {"all", "no agent watched", "state stdout exit state"},
	} {
		j := w.job(w.do("GET", "/v1/jobs/"+id, ""), 200)
		if j.State != api.StateFinished || j.Result.Outcome != api.OutcomeAgentLost || j.Result.Stdout != want.stdout || !strings.Contains(j.Result.Detail, want.detail) {
			t.Errorf("%s: %+v", id, j.Result)
		}
		if got := types(w.readEvents("/v1/jobs/" + id + "/events")); got != want.events {
			t.Errorf("%s: %s", id, got)
		}
	}
	if j := w.job(w.do("GET", "/v1/jobs/midway", ""), 200); j.Result.Stderr != "oops" {
		t.Errorf("%+v", j.Result)
	}
	files := strings.Join(stateFiles(t, cfg), " ")
	if strings.Contains(files, "torn") || strings.Contains(files, "orphan") || !strings.Contains(files, "broken.json") {
		t.Error(files)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.faults, []string{"record"}) { // the broken one, and nothing else
		t.Errorf("faults: %v", w.faults)
	}
}

func TestDrain(t *testing.T) {
	w := start(t, func(c *Config) { c.MaxJobs = 1; c.DrainTimeout = time.Minute })
	w.begin(`{"id":"runs","command":["wait"],"wait":false}`)
	w.running("runs")
	w.begin(`{"id":"waits","command":["print","x"],"wait":false}`)
	poll := make(chan response, 1)
	go func() {
		r, err := w.try("GET", "/v1/jobs/waits?wait=30s", "")
		if err != nil {
			t.Error(err)
		}
		poll <- r
	}()
	eventually(t, "the poll has arrived", func() bool { return strings.Contains(w.log.String(), `"path":"/v1/jobs/waits"`) })
	w.signals <- syscall.SIGTERM
	eventually(t, "draining", func() bool {
		r := w.do("GET", "/health", "")
		return r.status == 503 && strings.Contains(string(r.body), "draining")
	})
	p := w.problem(w.do("POST", "/v1/jobs", `{"command":["print"]}`), "unavailable", "")
	if p.RetryAfterMS == 0 {
		t.Errorf("%+v", p)
	}
	w.job(w.do("POST", "/v1/jobs", `{"id":"runs","command":["wait"],"wait":false}`), 202) // an old job is not a new one
	close(w.runner.letGo)
	if j := w.job(<-poll, 200); j.Result == nil || j.Result.Outcome != api.OutcomeOK {
		t.Errorf("%+v", j)
	}
	if err := <-w.ended; err != nil {
		t.Error(err)
	}
	w.ended = nil
	if _, err := os.Lstat(w.cfg.Socket); !os.IsNotExist(err) {
		t.Error("the socket is left: ", err)
	}
}

func TestDrainTimeoutAndSecondSignal(t *testing.T) {
	for name, detail := range map[string]string{"timeout": errDrained.Error(), "signal": errStopped.Error()} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.MaxJobs, cfg.DrainTimeout = 1, time.Minute
			if name == "timeout" {
				cfg.DrainTimeout = 50 * time.Millisecond
			}
			w := startConfig(t, cfg)
			w.begin(`{"id":"runs","command":["wait"],"wait":false}`)
			w.running("runs")
			w.begin(`{"id":"waits","command":["wait"],"wait":false}`)
			w.signals <- syscall.SIGTERM
			if name == "signal" {
				w.signals <- syscall.SIGTERM
			}
			if err := <-w.ended; err != nil {
				t.Error(err)
			}
			w.ended = nil
			next := startConfig(t, cfg)
			for _, id := range []string{"runs", "waits"} {
				if j := next.job(next.do("GET", "/v1/jobs/"+id, ""), 200); j.Result.Outcome != api.OutcomeCancelled || !strings.Contains(j.Result.Detail, detail) {
					t.Errorf("%s: %+v", id, j.Result)
				}
			}
		})
	}
}

func TestFullDiskIsAnAnswer(t *testing.T) {
	w := start(t, nil)
	if err := os.RemoveAll(filepath.Join(w.cfg.State, "jobs")); err != nil {
		t.Fatal(err)
	}
	w.problem(w.do("POST", "/v1/jobs", `{"id":"j","command":["print"]}`), "unavailable", "")
	if c := w.server.jobs.Capacity(); c.Running+c.Queued != 0 {
		t.Errorf("%+v", c)
	}
	if err := os.Mkdir(filepath.Join(w.cfg.State, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.post(`{"id":"j","command":["print"]}`)
}
