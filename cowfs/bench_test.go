package cowfs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkEphemeral is the cost of a tree that holds nothing, as percentiles of each half.
func BenchmarkEphemeral(b *testing.B) {
	m := newManager(b, nil)
	must(b, m.Skeleton(1, testIDBase))
	var prepare, assign, discard []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		tree, err := m.Prepare(1, testIDBase)
		must(b, err)
		start := time.Now()
		must(b, tree.Assign(fmt.Sprintf("bench-%d", i)))
		made := time.Now()
		must(b, tree.Discard())
		prepare = append(prepare, start.Sub(begin))
		assign, discard = append(assign, made.Sub(start)), append(discard, time.Since(made))
	}
	report(b, "prepare", prepare)
	report(b, "assign", assign)
	report(b, "discard", discard)
}

func report(b *testing.B, what string, d []time.Duration) {
	slices.Sort(d)
	b.ReportMetric(float64(d[len(d)/2].Microseconds()), what+"-p50-µs")
	b.ReportMetric(float64(d[len(d)*99/100].Microseconds()), what+"-p99-µs")
}

// BenchmarkThousandSmallFiles flushes and restores 1,000 files of 1 to 4 KiB, then one change among them.
func BenchmarkThousandSmallFiles(b *testing.B) {
	m := newManager(b, withBucket(fileBucket(b), "a"))
	ctx := context.Background()
	random := rand.NewChaCha8([32]byte{1})
	var flush, restore, again []time.Duration
	var added int64
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("ws%d", i)
		tree := create(b, m, CreateOptions{Workspace: name})
		for n := range 1000 {
			data := make([]byte, 1024+n*3)
			random.Read(data)
			must(b, tree.WriteFile(fmt.Sprintf("d%d/f%d", n%10, n), data, 0o644, JobID, JobID))
		}
		start := time.Now()
		_, _, err := tree.Flush(ctx, FlushMeta{})
		must(b, err)
		flush = append(flush, time.Since(start))
		must(b, tree.Discard())

		start = time.Now()
		tree = create(b, m, CreateOptions{Workspace: name})
		restore = append(restore, time.Since(start))
		must(b, tree.WriteFile("d5/f5", []byte("changed"), 0o644, JobID, JobID))
		start = time.Now()
		_, stats, err := tree.Flush(ctx, FlushMeta{})
		must(b, err)
		again, added = append(again, time.Since(start)), stats.BytesAdded
		must(b, tree.Discard())
	}
	report(b, "flush", flush)
	report(b, "restore", restore)
	report(b, "one-changed", again)
	b.ReportMetric(float64(added), "one-changed-bytes")
}
