package spool

import (
	"bytes"
	"os"
	"testing"
	"time"
)

func BenchmarkAppend(b *testing.B) {
	for name, size := range map[string]int{"64B": 64, "4K": 4096, "64K": MaxPayload} {
		b.Run(name, func(b *testing.B) {
			f, path := create(b)
			w := NewWriter(f, time.Now())
			payload := make([]byte, size)
			b.SetBytes(int64(size))
			for i := 0; b.Loop(); i++ {
				if i%4096 == 0 { // keep the file small
					if err := os.Truncate(path, 0); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Append(Stdout, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	var data []byte
	for range 10_000 {
		data = appendRecord(data, Stdout, 1, make([]byte, 200))
	}
	r := NewReader(bytes.NewReader(data))
	b.SetBytes(200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			r = NewReader(bytes.NewReader(data))
		}
	}
}
