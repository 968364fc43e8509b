package api

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

func TestQuantityText(t *testing.T) {
	for in, want := range map[string]string{
		"512Mi": "512Mi", "1G": "1G", "1T": "1T", "1024": "1Ki", "1000": "1k", "0": "0", "0.5Gi": "512Mi", "1e3": "1k",
		"20M": "20M", "100": "100", "1Ei": "1Ei",
	} {
		q, err := ParseQuantity(in)
		if err != nil || q.String() != want {
			t.Errorf("%s: %v, %v; want %s", in, q, err, want)
		}
	}
}

func TestQuantityRefuses(t *testing.T) {
	for _, in := range []string{"", "-1", "-1Mi", "abc", "1.5", "500m", "2Ei", "1e300", "1e2147483647", "1E", "9223372036854775808", "1 Mi", "0x10", strings.Repeat("9", 40)} {
		began := time.Now()
		if q, err := ParseQuantity(in); err == nil && in != "1E" {
			t.Errorf("%q is accepted as %d", in, int64(q))
		}
		if took := time.Since(began); took > time.Second { // a large exponent, written out, would take minutes
			t.Errorf("%q took %v", in, took)
		}
	}
}

func TestDurationText(t *testing.T) {
	for in, want := range map[string]string{"90s": "1m30s", "2m": "2m", "1h": "1h", "1.5s": "1.5s", "0s": "0s", "60m30s": "1h0m30s", "10m": "10m"} {
		d, err := ParseDuration(in)
		if err != nil || d.String() != want {
			t.Errorf("%s: %v, %v; want %s", in, d, err, want)
		}
	}
	for _, in := range []string{"-1s", "5", "", "1 s", "1y"} {
		if d, err := ParseDuration(in); err == nil {
			t.Errorf("%q is accepted as %v", in, d)
		}
	}
}

func TestRequestRoundTrip(t *testing.T) {
	const text = `{"command":["cat"],"stdin":{"open":true},"limits":{"wall":"1.5s","cpus":0.5,"memory":"512Mi"},"wait":false}`
	var r JobRequest
	if err := json.Unmarshal([]byte(text), &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if !r.Stdin.Open || r.Limits.Memory != 512<<20 || r.Limits.Wall != Duration(1500*time.Millisecond) || *r.Wait {
		t.Errorf("decoded %+v", r)
	}
	back, err := json.Marshal(r, json.Deterministic(true))
	if err != nil || string(back) != text {
		t.Errorf("encoded %s, %v", back, err)
	}
}

func TestStdinShapes(t *testing.T) {
	for in, want := range map[string]Stdin{`"a\u0000b"`: {Text: "a\x00b"}, `""`: {}, `{"open":true}`: {Open: true}, `{"open":false}`: {}} {
		var s Stdin
		if err := json.Unmarshal([]byte(in), &s); err != nil || s != want {
			t.Errorf("%s: %+v, %v", in, s, err)
		}
	}
	for _, in := range []string{`1`, `null`, `[]`, `{"open":1}`, `{"opened":true}`} {
		var s Stdin
		if err := json.Unmarshal([]byte(in), &s, json.RejectUnknownMembers(true)); err == nil {
			t.Errorf("%s is accepted as %+v", in, s)
		}
	}
}

func TestEveryClassHasItsStatus(t *testing.T) {
	want := map[string]int{
		"invalid": 400, "unauthorized": 401, "forbidden": 403, "not_found": 404, "conflict": 409, "too_large": 413,
		"unsupported": 422, "capacity": 429, "internal": 500, "unavailable": 503,
	}
	for class, status := range want {
		if p := NewProblem(class, "d"); p.Status != status || p.Class != class || p.Title == "" {
			t.Errorf("%s: %+v", class, p)
		}
	}
	if len(Classes()) != len(want) {
		t.Errorf("%d classes, want %d", len(Classes()), len(want))
	}
}
