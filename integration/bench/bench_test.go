package bench

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// BenchmarkStart is the time from POST to the result of `true` in a full syd jail, beside plain exec and the peers.
func BenchmarkStart(b *testing.B) {
	a := harness.Start(b, harness.Options{})
	variants := append(peers(b), peer{"tolbooth", func() error { return runTrue(a) }})
	measure(b, variants)
}

// runTrue posts one job and waits for its result, as a worker does.
func runTrue(a *harness.Agent) error {
	if res := a.Run(api.JobRequest{Command: []string{"/usr/bin/true"}}); res.Outcome != api.OutcomeOK {
		return fmt.Errorf("outcome %s: %s", res.Outcome, res.Detail)
	}
	return nil
}

// BenchmarkInside is what a jail costs a running program: three programs outside, then in a syd jail.
func BenchmarkInside(b *testing.B) {
	a := harness.Start(b, harness.Options{})
	t := table{{"inside the jail, median", "plain", "tolbooth", "ratio"}}
	for _, w := range workloads(b) {
		b.Run(w.name, func(b *testing.B) {
			var plain, jailed []time.Duration
			for b.Loop() {
				plain = append(plain, timed(b, func() error { return exec.Command(w.argv[0], w.argv[1:]...).Run() }))
				jailed = append(jailed, inJail(b, a, w))
			}
			p, j := percentile(plain, 50), percentile(jailed, 50)
			b.ReportMetric(ms(p), "plain-p50-ms")
			b.ReportMetric(ms(j), "jail-p50-ms")
			b.ReportMetric(float64(j)/float64(p), "ratio")
			b.ReportMetric(0, "ns/op")
			t = append(t, []string{w.what, inMS(p), inMS(j), fmt.Sprintf("%.2f", float64(j)/float64(p))})
		})
	}
	t.write(b)
}

// inJail is the run time of a workload as the warden saw it: from execve to the end.
func inJail(b *testing.B, a *harness.Agent, w workload) time.Duration {
	b.Helper()
	req := api.JobRequest{Command: w.argv, Limits: w.limits}
	if w.program != "" {
		req.Command = []string{"./program"}
		req.Files = []api.File{{Path: "program", Content: w.program, Encoding: "base64", Mode: "0755"}}
	}
	res := a.Run(req)
	if res.Outcome != api.OutcomeOK {
		b.Fatalf("%s: %s %s\n%s", w.name, res.Outcome, res.Detail, res.Stderr)
	}
	return time.Duration(res.Timings.Run) * time.Microsecond
}

func measure(b *testing.B, variants []peer) {
	for _, v := range variants {
		if err := v.run(); err != nil { // once to warm up, and to fail early
			b.Fatalf("%s: %v", v.name, err)
		}
	}
	times := map[string][]time.Duration{}
	for b.Loop() {
		for _, v := range variants {
			times[v.name] = append(times[v.name], timed(b, v.run))
		}
	}
	b.ReportMetric(0, "ns/op")
	t := table{{fmt.Sprintf("start to end of /usr/bin/true, %d times", len(times["plain"])), "p50", "p90", "p99", "tolbooth / it"}}
	base := percentile(times["tolbooth"], 50)
	for _, v := range variants {
		row := []string{v.name}
		for _, p := range []int{50, 90, 99} {
			d := percentile(times[v.name], p)
			b.ReportMetric(ms(d), fmt.Sprintf("%s-p%d-ms", v.name, p))
			row = append(row, inMS(d))
		}
		t = append(t, append(row, fmt.Sprintf("%.2f", float64(base)/float64(percentile(times[v.name], 50)))))
	}
	b.ReportMetric(float64(base)/float64(percentile(times["bwrap"], 50)), "tolbooth/bwrap")
	t.write(b)
}

func timed(b *testing.B, f func() error) time.Duration {
	b.Helper()
	start := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*p/100)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
