package socket

import (
	"encoding/base64"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// goClient fetches a URL with Go's own resolver, which is what static programs have.
const goClient = `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	start := time.Now()
	r, err := http.Get(os.Args[1])
	if err == nil {
		text, _ := io.ReadAll(r.Body)
		fmt.Println(string(text))
	}
	fmt.Println("ms", time.Since(start).Milliseconds())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
`

// clients are programs that fetch the URL in $URL, print "ms" with the time that took, and fail when it cannot be had.
func clients(t *testing.T) map[string]api.JobRequest {
	t.Helper()
	program := base64.StdEncoding.EncodeToString(goProgram(t, goClient))
	return map[string]api.JobRequest{
		"curl": {Command: []string{"bash", "-c", `curl -sS --max-time 20 -w '\nms %{time_total}\n' "$URL" | sed 's/ms 0*\([0-9]*\)\.\([0-9][0-9][0-9]\).*/ms \1\2/'; exit ${PIPESTATUS[0]}`}},
		"urllib": {Language: "python", Code: `
import os, sys, time, urllib.request
start = time.monotonic()
try: print(urllib.request.urlopen(os.environ["URL"], timeout=20).read().decode())
finally: print("ms", int((time.monotonic() - start) * 1000))`},
		"fetch": {Language: "javascript", Code: `
const start = performance.now()
fetch(process.env.URL).then(r => r.text()).then(console.log, e => { console.log(e.cause.code); process.exitCode = 1 })
	.then(() => console.log("ms", Math.round(performance.now() - start)))`},
		"socket": {Language: "python", Code: `
import os, socket, time, urllib.parse
start = time.monotonic()
u = urllib.parse.urlparse(os.environ["URL"])
try:
    s = socket.create_connection((u.hostname, u.port or 80), 20)
    s.sendall(b"GET / HTTP/1.0\r\nHost: %s\r\n\r\n" % u.hostname.encode())
    while b := s.recv(1000): print(b.decode())
finally: print("ms", int((time.monotonic() - start) * 1000))`},
		"go": {Command: []string{"sh", "-c", `./client "$URL"`}, Files: []api.File{{Path: "client", Content: program, Encoding: "base64", Mode: "0755"}}},
	}
}

// TestEveryClientByName: the same allowed URL works and the same denied ones fail at once, whichever program asks and however it
// looks names up, without a proxy or a variable.
func TestEveryClientByName(t *testing.T) {
	a, world, names := nameWorld(t, []string{"api.test. 60 IN A 203.0.113.10", "other.test. 60 IN A 203.0.113.10"})
	var l net.Listener
	if err := harness.InNetns(world.Ns, func() (err error) { l, err = net.Listen("tcp", "203.0.113.10:80"); return err }); err != nil {
		t.Fatal(err)
	}
	var served atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		w.Write([]byte("hello " + r.Host))
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })

	for name, req := range clients(t) {
		t.Run(name, func(t *testing.T) {
			req.Network = api.Network{Mode: "allow", Allow: []string{"api.test:80"}}
			fetch := func(url string) (*api.Result, int64) {
				req.Env = map[string]string{"URL": url}
				before := served.Load()
				return a.Run(req), served.Load() - before
			}
			if res, n := fetch("http://api.test/"); res.Outcome != api.OutcomeOK || !strings.Contains(res.Stdout, "hello api.test") || n != 1 || len(res.Denials) != 0 {
				t.Errorf("allowed: %s %q %q %+v", res.Outcome, res.Stdout, res.Stderr, res.Denials)
			}
			for url, want := range map[string]string{
				"http://other.test/": "resolve other.test (A)", "http://203.0.113.10:81/": "connect 203.0.113.10:81/tcp",
			} {
				res, n := fetch(url)
				if res.Outcome != api.OutcomeExit || n != 0 || len(res.Denials) != 1 || res.Denials[0].What != want {
					t.Errorf("%s: %s %q %q %+v", url, res.Outcome, res.Stdout, res.Stderr, res.Denials)
				}
				_, text, _ := strings.Cut(res.Stdout, "ms ")
				ms, err := strconv.Atoi(strings.Fields(text + " ?")[0])
				if limit := atOnce.Milliseconds(); err != nil || int64(ms) > limit {
					t.Errorf("%s: refused after %d ms (%v), want less than %d: %q", url, ms, err, limit, res.Stdout)
				}
				t.Logf("%s: %d ms", url, ms)
			}
		})
	}
	for _, asked := range names.Asked() {
		if strings.Contains(asked, "other") {
			t.Errorf("the name server was asked for %s", asked)
		}
	}
}
