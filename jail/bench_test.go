package jail

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkTrue runs /bin/true in full jails and reports the median and the 99th percentile, in milliseconds:
// cold is Prepare, Build, Start and Wait; prepared leaves the first two out. Making and removing cgroup, root and spool is not counted.
func BenchmarkTrue(b *testing.B) {
	s := newSite(b)
	for _, mode := range modes {
		var cold, prepared []time.Duration
		b.Run(string(mode), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				j := s.newJob(b, mode, "/bin/true")
				b.StartTimer()
				t0 := time.Now()
				p := j.build()
				t1 := time.Now()
				process, err := p.Start(context.Background(), j.spec)
				if err != nil {
					b.Fatal(err)
				}
				exit := j.wait(process)
				t2 := time.Now()
				b.StopTimer()
				if exit.Cause != CauseExit || exit.Code != 0 {
					b.Fatalf("exit %+v", exit)
				}
				j.close()
				cold, prepared = append(cold, t2.Sub(t0)), append(prepared, t2.Sub(t1))
				b.StartTimer()
			}
			report(b, "cold", cold)
			report(b, "prepared", prepared)
		})
	}
}

// BenchmarkPlain is the same command without a jail, for comparison in the same minute.
func BenchmarkPlain(b *testing.B) {
	var all []time.Duration
	for b.Loop() {
		t0 := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(t0))
	}
	report(b, "plain", all)
}

func report(b *testing.B, name string, all []time.Duration) {
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	b.ReportMetric(at(0.5), name+"-p50-ms")
	b.ReportMetric(at(0.99), name+"-p99-ms")
}
