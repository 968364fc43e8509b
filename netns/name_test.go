package netns

import (
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

func TestParseNameRule(t *testing.T) {
	const both = bpf.TCP | bpf.UDP
	for text, want := range map[string]NameRule{
		"api.example.com:443":             {Name: "api.example.com", Low: 443, High: 443, Protocols: both},
		"API.Example.COM.:443":            {Name: "api.example.com", Low: 443, High: 443, Protocols: both},
		"*.files.example.com:443/tcp":     {Name: "files.example.com", Wildcard: true, Low: 443, High: 443, Protocols: bpf.TCP},
		"*.com":                           {Name: "com", Wildcard: true, High: 65535, Protocols: bpf.AllProtocols},
		"a_b.example:1-2/udp":             {Name: "a_b.example", Low: 1, High: 2, Protocols: bpf.UDP},
		"bücher.example":                  {Name: "xn--bcher-kva.example", High: 65535, Protocols: bpf.AllProtocols},
		"BÜCHER.example":                  {Name: "xn--bcher-kva.example", High: 65535, Protocols: bpf.AllProtocols},
		"*.bücher.example/icmp":           {Name: "xn--bcher-kva.example", Wildcard: true, High: 65535, Protocols: bpf.ICMP},
		"db:5432":                         {Name: "db", Low: 5432, High: 5432, Protocols: both},
		strings.Repeat("a", 63) + ".test": {Name: strings.Repeat("a", 63) + ".test", High: 65535, Protocols: bpf.AllProtocols},
	} {
		got, err := ParseNameRule(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v (%v), want %+v", text, got, err, want)
		}
	}
}

func TestParseNameRuleRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"*":                       `set network.mode to "open"`,
		"*:443":                   `set network.mode to "open"`,
		"*.":                      "1 to 253 characters",
		"a.*.com":                 "whole labels at the beginning",
		"*a.com":                  "whole labels at the beginning",
		"*.*.com":                 "whole labels at the beginning",
		"example.com/24":          "no prefix length",
		"localhost:80":            "the job itself",
		"a.localhost":             "the job itself",
		"example.com:0":           "port 0",
		"example.com:80/icmp":     "icmp has no ports",
		"example.com:80/sctp":     "unknown protocol",
		"-a.com":                  "hyphen",
		"a-.com":                  "hyphen",
		"a..com":                  "1 to 63 characters",
		".com":                    "1 to 63 characters",
		"a b.com":                 "has no place",
		"1.2.3.4":                 "ends in a number",
		"evil.0x7f":               "ends in a number",
		"exa\u200bmple.\u0000com": "not an international domain name",
		strings.Repeat("a", 64):   "1 to 63 characters",
		strings.Repeat("a.", 140): "1 to 253 characters",
		strings.Repeat("a", 999):  "longer than",
	} {
		_, err := ParseNameRule(text)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want an error that says %q", text, err, why)
		}
	}
}

func TestNameRuleMatches(t *testing.T) {
	for _, c := range []struct {
		rule, name string
		want       bool
	}{
		{"api.example.com", "api.example.com", true},
		{"api.example.com", "xapi.example.com", false},
		{"api.example.com", "x.api.example.com", false},
		{"api.example.com", "api.example.com.evil.com", false},
		{"*.example.com", "a.example.com", true},
		{"*.example.com", "a.b.example.com", true},
		{"*.example.com", "example.com", false},
		{"*.example.com", ".example.com", false},
		{"*.example.com", "evilexample.com", false},
		{"*.example.com", "a.example.com.evil.com", false},
	} {
		r, err := ParseNameRule(c.rule)
		if err != nil || r.Matches(c.name) != c.want {
			t.Errorf("%s and %s: %v (%v), want %v", c.rule, c.name, !c.want, err, c.want)
		}
		if r.Text() != c.rule {
			t.Errorf("%s is written as %s", c.rule, r.Text())
		}
	}
}

func FuzzParseNameRule(f *testing.F) {
	for _, s := range []string{"api.example.com:443", "*.a.b:1-2/tcp", "bücher.example", "*", "xn--bcher-kva.example.:1", "[x]:1", "1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseNameRule(s)
		if err != nil {
			return
		}
		again, err := CanonicalName(r.Name)
		if err != nil || again != r.Name {
			t.Errorf("%q: %q is not canonical: %q (%v)", s, r.Name, again, err)
		}
		if r.Low > r.High || r.Protocols == 0 {
			t.Errorf("%q: meaningless rule %+v", s, r)
		}
		if _, err := ParseRule(s); err == nil {
			t.Errorf("%q is a rule by address and by name", s)
		}
	})
}
