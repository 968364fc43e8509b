package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

func auditLines(t *testing.T, path string) []auditLine {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []auditLine
	for line := range bytes.Lines(data) {
		var a auditLine
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		lines = append(lines, a)
	}
	return lines
}

// TestAuditNamesEveryRun: each run is one line with who asked for it and how it ended, and nothing that the job printed.
func TestAuditNamesEveryRun(t *testing.T) {
	w := start(t, nil)
	w.post(`{"id":"one","command":["print","the-secret-output"],"labels":{"a":"b"},"limits":{"memory":"64Mi"},"env":{"TOKEN":"the-secret-value"},"network":{"mode":"allow","allow":["10.0.0.1:80"],"budget":"5M"}}`)
	w.post(`{"id":"two","command":["nostart"]}`)
	path := filepath.Join(w.cfg.State, "audit.log")
	eventually(t, "two lines", func() bool { data, _ := os.ReadFile(path); return bytes.Count(data, []byte("\n")) == 2 })
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	for _, absent := range []string{`"stdout":`, `"stderr":`, `"encoding":`, `"effective":`, "the-secret-value"} {
		if strings.Contains(first, absent) {
			t.Errorf("%s in %s", absent, first)
		}
	}
	lines := auditLines(t, path)
	a := lines[0]
	if a.ID != "one" || a.Labels["a"] != "b" || a.Result.Outcome != api.OutcomeOK || a.Request.Limits.Memory != 64<<20 || a.Request.Network.Mode != "allow" || a.Request.Network.Budget != 5_000_000 || !slices.Contains(a.Request.Env, "TOKEN") ||
		strings.Join(a.Request.Command, " ") != "print the-secret-output" || a.Result.StdoutBytes == 0 || a.Request.Mode != "syd" || len(a.Request.Hash) != 64 {
		t.Errorf("%s", first)
	}
	if a.Peer == nil || a.Peer.Listener != "socket" || a.Peer.UID == nil || int(*a.Peer.UID) != os.Getuid() || int(a.Peer.PID) != os.Getpid() {
		t.Errorf("peer %+v", a.Peer)
	}
	if lines[1].Result.Outcome != api.OutcomeStartFailed {
		t.Errorf("%+v", lines[1].Result)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// TestAuditCannotBeForged: text of a job with line ends, quotes, escape sequences and broken UTF-8 stays inside its own
// line (attack F6).
func TestAuditCannotBeForged(t *testing.T) {
	w := start(t, nil)
	forged := "\n{\"version\":1,\"id\":\"forged\"}\n\x1b[2J\u2028\r"
	body, err := json.Marshal(map[string]any{"id": "real", "command": []string{"print", forged}})
	if err != nil {
		t.Fatal(err)
	}
	w.post(string(body))
	path := filepath.Join(w.cfg.State, "audit.log")
	eventually(t, "a line", func() bool { data, _ := os.ReadFile(path); return bytes.Count(data, []byte("\n")) > 0 })
	lines := auditLines(t, path)
	if len(lines) != 1 || lines[0].ID != "real" || lines[0].Request.Command[1] != forged {
		t.Fatalf("%+v", lines)
	}
	data, _ := os.ReadFile(path)
	if bytes.ContainsAny(bytes.TrimSuffix(data, []byte("\n")), "\n\r\x1b") {
		t.Errorf("control characters as they are: %q", data)
	}
}

// TestAuditFailureHoldsNoJob: a file that cannot be written costs the line, and health, metrics and log say so.
func TestAuditFailureHoldsNoJob(t *testing.T) {
	w := start(t, nil)
	path := filepath.Join(w.cfg.State, "audit.log")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if j := w.post(`{"id":"one","command":["print"]}`); j.Result.Outcome != api.OutcomeOK {
		t.Errorf("%+v", j.Result)
	}
	eventually(t, "the metric", func() bool {
		return strings.Contains(string(w.do("GET", "/metrics", "").body), "tolbooth_audit_lost_total 1")
	})
	if !strings.Contains(w.log.String(), "missing from the audit log") {
		t.Error(w.log.String())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) != 1 || w.faults[0] != "audit" {
		t.Error(w.faults)
	}
}

func TestAuditLineIsBounded(t *testing.T) {
	finished := time.Now()
	final := api.Job{FinishedAt: &finished, Result: &api.Result{Outcome: api.OutcomeOK, Outputs: []api.Output{{Path: "p", Content: "bytes"}}}}
	for range 3000 {
		final.Result.Denials = append(final.Result.Denials, api.Denial{Rule: "r", Why: strings.Repeat("w", 500), Fix: noFix})
	}
	j := &job{id: "j", work: &work{Command: []string{strings.Repeat("c", 1<<20), "d"}}}
	line, err := auditOf("n", j, final)
	if err != nil || len(line) > maxAuditLine {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	var a auditLine
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatal(err)
	}
	if !a.Request.CommandCut || len(a.Request.Command[0]) > maxAuditCommand || len(a.Result.Denials) != fewDenials || a.Result.DenialsOmitted != 3000-fewDenials {
		t.Errorf("cut %v, %d denials, %d omitted", a.Request.CommandCut, len(a.Result.Denials), a.Result.DenialsOmitted)
	}
	if a.Result.Outputs[0].Content != "" || final.Result.Outputs[0].Content != "bytes" {
		t.Error("output content in the line, or gone from the result")
	}
}
