package spool

import (
	"bytes"
	"io"
	"testing"
)

// FuzzReader: whatever the bytes, the reader ends, holds to its limits, and reads what a writer would have written.
func FuzzReader(f *testing.F) {
	one := appendRecord(nil, Stdout, 1, []byte("hello"))
	f.Add(one)
	f.Add(append(one, one[:7]...))
	f.Add(append(one, []byte("\xff\xff\xff\xfftb")...))
	f.Add(appendRecord(one, Exit, -1, make([]byte, MaxPayload)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data))
		var again []byte
		for {
			rec, err := r.Next()
			if err != nil {
				if _, err2 := r.Next(); err2 != err {
					t.Fatalf("%v, then %v", err, err2)
				}
				rest := len(data) - len(again)
				if err == io.EOF && rest >= headerSize+MaxPayload {
					t.Fatalf("end of file with %d bytes left", rest)
				}
				break
			}
			if len(rec.Payload) > MaxPayload || !rec.Kind.valid() {
				t.Fatalf("record %+v", rec)
			}
			again = appendRecord(again, rec.Kind, rec.AtUS, rec.Payload)
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatal("records do not add up to the bytes read")
		}
	})
}
