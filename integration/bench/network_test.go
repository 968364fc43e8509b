package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// BenchmarkNetworks runs jobs with networks of their own, 32 at a time, and reports what the network added to each: up to the
// program's start, and from its end to the result. What is left behind is an error, as in every test here.
func BenchmarkNetworks(b *testing.B) {
	node, world := harness.NewWorld(b, "10.88.0.1/32")
	a := harness.Start(b, harness.Options{Netns: node, Args: []string{"--max-jobs", "32", "--queue", "64"}})
	world.Serve("10.88.0.1:80", "hello\n")
	job := api.JobRequest{
		Command: []string{"bash", "-c", "exec 3<>/dev/tcp/10.88.0.1/80; read -u 3 line; echo $line"},
		Network: api.Network{Mode: "allow", Allow: []string{"10.88.0.1:80"}},
	}
	var mu sync.Mutex
	var added, whole []time.Duration
	turn := make(chan struct{}, 32)
	var jobs sync.WaitGroup
	for b.Loop() {
		turn <- struct{}{}
		jobs.Go(func() {
			defer func() { <-turn }()
			start := time.Now()
			res := a.Run(job)
			mu.Lock()
			defer mu.Unlock()
			if res.Stdout != "hello\n" {
				b.Errorf("%s %s: %s%s %+v", res.Outcome, res.Detail, res.Stdout, res.Stderr, res.Denials)
			}
			added = append(added, time.Duration(res.Timings.Network)*time.Microsecond)
			whole = append(whole, time.Since(start))
		})
	}
	jobs.Wait()
	b.ReportMetric(0, "ns/op")
	t := table{{fmt.Sprintf("%d jobs with a network, 32 at a time", len(added)), "p50", "p90", "p99"}}
	for _, r := range []struct {
		name string
		d    []time.Duration
	}{{"network set-up", added}, {"POST to result", whole}} {
		row := []string{r.name}
		for _, p := range []int{50, 90, 99} {
			row = append(row, inMS(percentile(r.d, p)))
		}
		t = append(t, row)
	}
	b.ReportMetric(ms(percentile(added, 50)), "network-p50-ms")
	b.ReportMetric(ms(percentile(added, 99)), "network-p99-ms")
	t.write(b)
}
