package netns

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

func TestParseRule(t *testing.T) {
	const both = bpf.TCP | bpf.UDP
	for text, want := range map[string]bpf.Rule{
		"10.1.2.0/24:5432/tcp":  {Prefix: netip.MustParsePrefix("10.1.2.0/24"), Low: 5432, High: 5432, Protocols: bpf.TCP},
		"[fd00::1]:53/udp":      {Prefix: netip.MustParsePrefix("fd00::1/128"), Low: 53, High: 53, Protocols: bpf.UDP},
		"[fd00::/64]:53":        {Prefix: netip.MustParsePrefix("fd00::/64"), Low: 53, High: 53, Protocols: both},
		"[fd00::]/64:53":        {Prefix: netip.MustParsePrefix("fd00::/64"), Low: 53, High: 53, Protocols: both},
		"[fd00::]/64":           {Prefix: netip.MustParsePrefix("fd00::/64"), High: 65535, Protocols: bpf.AllProtocols},
		"[::/0]":                {Prefix: netip.MustParsePrefix("::/0"), High: 65535, Protocols: bpf.AllProtocols},
		"10.0.0.1":              {Prefix: netip.MustParsePrefix("10.0.0.1/32"), High: 65535, Protocols: bpf.AllProtocols},
		"10.0.0.1/tcp":          {Prefix: netip.MustParsePrefix("10.0.0.1/32"), High: 65535, Protocols: bpf.TCP},
		"10.0.0.0/8/icmp":       {Prefix: netip.MustParsePrefix("10.0.0.0/8"), High: 65535, Protocols: bpf.ICMP},
		"1.2.3.4:8000-9000":     {Prefix: netip.MustParsePrefix("1.2.3.4/32"), Low: 8000, High: 9000, Protocols: both},
		"0.0.0.0/0:443":         {Prefix: netip.MustParsePrefix("0.0.0.0/0"), Low: 443, High: 443, Protocols: both},
		"1.2.3.4:1-65535/udp":   {Prefix: netip.MustParsePrefix("1.2.3.4/32"), Low: 1, High: 65535, Protocols: bpf.UDP},
		"[2001:db8::]/32/tcp":   {Prefix: netip.MustParsePrefix("2001:db8::/32"), High: 65535, Protocols: bpf.TCP},
		"[64:ff9b::102:304]:80": {Prefix: netip.MustParsePrefix("64:ff9b::102:304/128"), Low: 80, High: 80, Protocols: both},
	} {
		got, err := ParseRule(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v (%v), want %+v", text, got, err, want)
		}
	}
}

func TestParseRuleRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                         "no address",
		":443":                     "no address",
		"10.1.2.3/24":              "did you mean 10.1.2.0/24",
		"[fd00::1/64]:53":          "did you mean fd00::/64",
		"10.0.0.0/33":              "prefix length",
		"10.0.0.0/":                "prefix length",
		"10.0.0.0/08":              "prefix length",
		"10.0.0.0/8/8":             "prefix length",
		"1.2.3.4:9000-8000":        "wrong way round",
		"1.2.3.4:0":                "port 0",
		"1.2.3.4:65536":            "port",
		"1.2.3.4:+80":              "port",
		"1.2.3.4:080":              "port",
		"1.2.3.4:80-":              "port",
		"1.2.3.4:":                 "port",
		"1.2.3.4:http":             "port",
		"1.2.3.4:80/sctp":          "unknown protocol",
		"1.2.3.4:80/TCP":           "unknown protocol",
		"1.2.3.4:80/icmp":          "icmp has no ports",
		"0251.0376.0251.0376":      "not an IPv4 address",
		"2852039166":               "not an IPv4 address",
		"0xa9fea9fe":               "not an IPv4 address",
		"0xa9.0xfe.0xa9.0xfe":      "not an IPv4 address",
		"127.1":                    "not an IPv4 address",
		"1.2.3.4.":                 "not an IPv4 address",
		"1.2.3.256":                "not an IPv4 address",
		"evil.com.1":               "not an IPv4 address",
		"fd00::1":                  "in brackets",
		"fd00::1:443":              "in brackets",
		"[fd00::1":                 "bracket",
		"[1.2.3.4]:80":             "brackets are for IPv6",
		"[fd00::1]x:80":            "unexpected",
		"[fd00::/64]/64":           "unexpected",
		"[fe80::1%eth0]:80":        "zone",
		"[::ffff:169.254.169.254]": "write the IPv4 address as 169.254.169.254",
		"[fd00:::1]":               "not an IPv6 address",
		" 1.2.3.4":                 "not an IPv4 address",
		"1.2.3.4 :80":              "neither",
		"a..b:80":                  "neither",
		strings.Repeat("1", 1000):  "longer than",
	} {
		_, err := ParseRule(text)
		if err == nil || !strings.Contains(err.Error(), why) || errors.Is(err, ErrDomain) {
			t.Errorf("%q: %v, want an error that says %q", text, err, why)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%.20q: a message of %d bytes", text, len(err.Error()))
		}
	}
	for _, name := range []string{"api.example.com:443", "*.files.example.com:443", "localhost", "bücher.example/tcp", "xn--bcher-kva.example:443/tcp", "a_b.example"} {
		if _, err := ParseRule(name); !errors.Is(err, ErrDomain) {
			t.Errorf("%s: %v, want ErrDomain", name, err)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	p, err := ParsePolicy("allow", []string{"10.0.0.0/8:443"}, []string{"10.1.0.0/16"})
	if err != nil || p.Mode != bpf.ModeAllow || len(p.Allow) != 1 || len(p.Deny) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, c := range []struct {
		mode        string
		allow, deny []string
		field       string
	}{
		{"Open", nil, nil, "network.mode"},
		{"", []string{"10.0.0.1"}, nil, "network.allow"},
		{"open", []string{"10.0.0.1"}, nil, "network.allow"},
		{"none", nil, []string{"10.0.0.1"}, "network.deny"},
		{"allow", []string{"10.0.0.1", "x"}, nil, "network.allow[1]"},
		{"allow", nil, []string{"10.0.0.1/8"}, "network.deny[0]"},
	} {
		if _, err := ParsePolicy(c.mode, c.allow, c.deny); err == nil || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%+v: %v, want an error that names %s", c, err, c.field)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"10.1.2.0/24:5432/tcp", "[fd00::1]:53/udp", "[fd00::]/64:1-2", "1.2.3.4", "0x7f.1", "*.a.b:1", "[::/0]/icmp"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(s)
		if err != nil {
			return
		}
		if r.Prefix != r.Prefix.Masked() || r.Low > r.High || r.Protocols == 0 {
			t.Errorf("%q: meaningless rule %+v", s, r)
		}
		text, err := FormatRule(r)
		if err != nil {
			// Only all ports with a pair of protocols has no short writing.
			t.Errorf("%q: %v", s, err)
		}
		if back, err := ParseRule(text); err != nil || back != r {
			t.Errorf("%q: written as %q, read as %+v (%v)", s, text, back, err)
		}
	})
}
