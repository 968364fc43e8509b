package netns

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// ParsePolicy reads a request's network fields. Mode "" is none. Errors name the field.
func ParsePolicy(mode string, allow, deny []string) (bpf.Policy, error) {
	var p bpf.Policy
	switch mode {
	case "", "none":
		p.Mode = bpf.ModeNone
	case "allow":
		p.Mode = bpf.ModeAllow
	case "open":
		p.Mode = bpf.ModeOpen
	default:
		return p, fmt.Errorf("network.mode %q: want none, allow or open", mode)
	}
	if p.Mode != bpf.ModeAllow && len(allow) > 0 {
		return p, fmt.Errorf("network.allow: has no meaning with network.mode %q", mode)
	}
	if p.Mode == bpf.ModeNone && len(deny) > 0 {
		return p, fmt.Errorf("network.deny: has no meaning with network.mode %q", mode)
	}
	var err error
	if p.Allow, err = parseRules("network.allow", allow); err != nil {
		return p, err
	}
	p.Deny, err = parseRules("network.deny", deny)
	return p, err
}

func parseRules(field string, texts []string) ([]bpf.Rule, error) {
	var out []bpf.Rule
	for i, s := range texts {
		r, err := ParseRule(s)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// FormatRule writes a rule as ParseRule reads it. A rule that no text can say is an error.
func FormatRule(r bpf.Rule) (string, error) {
	var b strings.Builder
	text := r.Prefix.String()
	if r.Prefix.IsSingleIP() {
		text = r.Prefix.Addr().String()
	}
	if r.Prefix.Addr().Is6() {
		text = "[" + text + "]"
	}
	b.WriteString(text)
	hasPorts := r.Low != 0 || r.High != 65535
	if hasPorts {
		b.WriteString(":" + strconv.Itoa(int(r.Low)))
	}
	if hasPorts && r.Low != r.High {
		b.WriteString("-" + strconv.Itoa(int(r.High)))
	}
	switch r.Protocols {
	case bpf.TCP:
		b.WriteString("/tcp")
	case bpf.UDP:
		b.WriteString("/udp")
	case bpf.ICMP:
		b.WriteString("/icmp")
	}
	if back, err := ParseRule(b.String()); err != nil || back != r {
		return "", fmt.Errorf("rule %+v cannot be written", r)
	}
	return b.String(), nil
}
