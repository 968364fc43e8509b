package cowfs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkEphemeral is the cost of a tree that holds nothing, as percentiles of each half.
func BenchmarkEphemeral(b *testing.B) {
	m := newManager(b, nil)
	must(b, m.Skeleton(1, testIDBase))
	var prepare, create, discard []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		must(b, m.Prepare(1, testIDBase))
		start := time.Now()
		tree, err := m.Create(context.Background(), CreateOptions{ID: fmt.Sprintf("bench-%d", i), Slot: 1, IDBase: testIDBase})
		must(b, err)
		made := time.Now()
		must(b, tree.Discard())
		prepare = append(prepare, start.Sub(begin))
		create, discard = append(create, made.Sub(start)), append(discard, time.Since(made))
	}
	report(b, "prepare", prepare)
	report(b, "create", create)
	report(b, "discard", discard)
}

func report(b *testing.B, what string, d []time.Duration) {
	slices.Sort(d)
	b.ReportMetric(float64(d[len(d)/2].Microseconds()), what+"-p50-µs")
	b.ReportMetric(float64(d[len(d)*99/100].Microseconds()), what+"-p99-µs")
}
