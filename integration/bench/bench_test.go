package bench

import (
	"fmt"
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

// engines are the ways in which refused calls are explained, each measured beside the other.
var engines = []string{"notify", "ptrace"}

// BenchmarkInside is what a jail costs a running program: each program plain on the same overlay, then in a syd jail with
// each engine.
func BenchmarkInside(b *testing.B) {
	outside := newPlain(b)
	heading := []string{"inside the jail, median", "plain"}
	agents := map[string]*harness.Agent{}
	for _, e := range engines {
		agents[e] = harness.Start(b, harness.Options{Args: []string{"--explainer", e}})
		heading = append(heading, e, "ratio")
	}
	t := table{heading}
	for _, w := range workloads(b) {
		b.Run(w.name, func(b *testing.B) {
			var plain []time.Duration
			jailed := map[string][]time.Duration{}
			for b.Loop() {
				plain = append(plain, outside.run(b, w))
				for _, e := range engines {
					jailed[e] = append(jailed[e], inJail(b, agents[e], w))
				}
			}
			p := percentile(plain, 50)
			b.ReportMetric(ms(p), "plain-p50-ms")
			row := []string{w.what, w.figure(p)}
			for _, e := range engines {
				j := percentile(jailed[e], 50)
				ratio := float64(j) / float64(p)
				b.ReportMetric(ms(j), e+"-p50-ms")
				b.ReportMetric(ratio, e+"-ratio")
				row = append(row, w.figure(j), fmt.Sprintf("%.2f", ratio))
			}
			b.ReportMetric(0, "ns/op")
			t = append(t, row)
		})
	}
	t.write(b)
}

// figure is a time as the table shows it: of the whole, or of one refused call.
func (w workload) figure(d time.Duration) string {
	if w.calls == 0 {
		return inMS(d)
	}
	return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1000/float64(w.calls))
}

// inJail is the run time of a workload as the warden saw it: from execve to the end.
func inJail(b *testing.B, a *harness.Agent, w workload) time.Duration {
	b.Helper()
	room := api.Limits{Wall: api.Duration(2 * time.Minute), CPU: api.Duration(2 * time.Minute), CPUs: 2}
	res := a.Run(api.JobRequest{Command: w.argv, Files: w.files, Limits: room})
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
