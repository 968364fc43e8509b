package api

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a length of time written as a Go duration: "1.5s", "2m". It is never negative.
type Duration time.Duration

// ParseDuration reads a Go duration that is not negative.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf(`%.64q is not a duration such as "1.5s" or "2m"`, s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%.64q is negative", s)
	}
	return Duration(d), nil
}

// String is the Go duration without the parts that are zero: "2m", not "2m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes the duration as text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a Go duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = v
	return nil
}
