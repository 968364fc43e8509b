package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// table is for a person: a heading and its rows. The same figures are in the benchmarks' own lines, for benchstat.
type table [][]string

// write appends the table to the file that make bench shows at its end.
func (t table) write(b *testing.B) {
	b.Helper()
	path := os.Getenv("TOLBOOTH_BENCH_TABLE")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		b.Fatal(err)
	}
	_, err = f.WriteString(t.String() + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (t table) String() string {
	width := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range t {
		fmt.Fprintf(&text, "%-*s", width[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(&text, "  %*s", max(width[i+1], 9), cell)
		}
		text.WriteString("\n")
	}
	return text.String()
}

func inMS(d time.Duration) string { return fmt.Sprintf("%.1f ms", ms(d)) }
