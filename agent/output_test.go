package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

func writeSpool(t *testing.T, fill func(add func(spool.Kind, string))) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := spool.NewWriter(f, time.Now())
	fill(func(kind spool.Kind, payload string) {
		if err := w.Append(kind, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	})
	return path
}

func TestCollect(t *testing.T) {
	for name, tc := range map[string]struct {
		out, err  []string
		keep      int64
		want      api.Result
		truncated bool
	}{
		"text":                    {[]string{"a", "b"}, []string{"c"}, 100, api.Result{Stdout: "ab", Stderr: "c", Encoding: "utf-8", StdoutBytes: 2, StderrBytes: 1}, false},
		"nothing":                 {nil, nil, 100, api.Result{Encoding: "utf-8"}, false},
		"character over a border": {[]string{"gr\xc3", "\xbcn"}, nil, 100, api.Result{Stdout: "grün", Encoding: "utf-8", StdoutBytes: 5}, false},
		"NUL is text":             {[]string{"\x00"}, nil, 100, api.Result{Stdout: "\x00", Encoding: "utf-8", StdoutBytes: 1}, false},
		"bytes":                   {[]string{"\xff"}, []string{"x"}, 100, api.Result{Stdout: "/w==", Stderr: "eA==", Encoding: "base64", StdoutBytes: 1, StderrBytes: 1}, false},
		"cut":                     {[]string{"abc", "def"}, nil, 4, api.Result{Stdout: "abcd", Encoding: "utf-8", StdoutBytes: 4}, true},
		"cut in a character":      {[]string{"aü"}, nil, 2, api.Result{Stdout: "a", Encoding: "utf-8", StdoutBytes: 2}, true},
		"half a character at end": {[]string{"a\xc3"}, nil, 100, api.Result{Stdout: "YcM=", Encoding: "base64", StdoutBytes: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := collect(writeSpool(t, func(add func(spool.Kind, string)) {
				for _, s := range tc.out {
					add(spool.Stdout, s)
				}
				for _, s := range tc.err {
					add(spool.Stderr, s)
				}
			}), tc.keep)
			if err != nil {
				t.Fatal(err)
			}
			var r api.Result
			c.fill(&r)
			if r.Stdout != tc.want.Stdout || r.Stderr != tc.want.Stderr || r.Encoding != tc.want.Encoding || r.Truncated != tc.truncated ||
				r.StdoutBytes != tc.want.StdoutBytes || r.StderrBytes != tc.want.StderrBytes {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestCollectFindsTheEnd(t *testing.T) {
	path := writeSpool(t, func(add func(spool.Kind, string)) {
		add(spool.State, `{"state":"running"}`)
		add(spool.Refusal, `{"rule":"network.none"}`)
		if has, err := hasExit(filepath.Join(t.TempDir(), "none")); has || err == nil {
			t.Error(has, err)
		}
		add(spool.Exit, string(mustEncode(jail.Exit{Cause: jail.CauseWall})))
	})
	c, err := collect(path, 10)
	if err != nil || c.Exit == nil || c.Exit.Cause != jail.CauseWall || c.State != api.StateRunning || len(c.Refusals) != 1 {
		t.Errorf("%+v %v", c, err)
	}
	if has, err := hasExit(path); !has || err != nil {
		t.Error(has, err)
	}
}

func TestCollectKeepsWhatIsBeforeDamage(t *testing.T) {
	path := writeSpool(t, func(add func(spool.Kind, string)) { add(spool.Stdout, "good") })
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Repeat("\xff", 100)); err != nil {
		t.Fatal(err)
	}
	c, err := collect(path, 100)
	if err == nil || string(c.Stdout) != "good" {
		t.Errorf("%q %v", c.Stdout, err)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"command":["x"],"limits":{"memory":"1Gi","wall":"1s"},"stdin":{"open":true},"files":[{"path":"a","content":""}]}`))
	f.Add([]byte(`{"language":"python","code":"x","network":{"mode":"allow","allow":["10.0.0.0/8:1-2/tcp"]}}`))
	rules := testRules(nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		var r api.JobRequest
		if decodeJSON(body, &r) != nil {
			return
		}
		w, err := rules.admit(&r)
		if err != nil {
			if _, ok := err.(*problem); !ok {
				t.Errorf("%v is no problem", err)
			}
			return
		}
		if len(w.Command) == 0 || !strings.HasPrefix(w.Cwd, "/") || w.Limits.Memory.Value <= 0 {
			t.Errorf("%+v", w)
		}
	})
}
