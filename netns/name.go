package netns

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/idna"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// NameRule is a rule by domain name: a name, or every name below one, with ports and protocols as in a rule by address.
type NameRule struct {
	Name      string // as CanonicalName writes it
	Wildcard  bool   // the names below Name, at any depth, and not Name itself
	Low, High uint16
	Protocols bpf.Protocols
}

// Text is the name as a request writes it, without the ports.
func (r NameRule) Text() string {
	if r.Wildcard {
		return "*." + r.Name
	}
	return r.Name
}

// Matches reports whether the rule names a host. Precondition: name is canonical.
func (r NameRule) Matches(name string) bool {
	if !r.Wildcard {
		return name == r.Name
	}
	below, ok := strings.CutSuffix(name, r.Name)
	return ok && len(below) > 1 && below[len(below)-1] == '.'
}

// ParseNameRule reads one rule by name: NAME[:PORT[-PORT]][/PROTOCOL], where NAME may begin with "*.".
func ParseNameRule(s string) (NameRule, error) {
	r, err := parseNameRule(s)
	if err != nil {
		return NameRule{}, ruleError(s, err)
	}
	return r, nil
}

func parseNameRule(s string) (r NameRule, err error) {
	if len(s) > maxRuleText {
		return r, fmt.Errorf("longer than %d bytes", maxRuleText)
	}
	host, d, err := cutDestination(s)
	if err != nil {
		return r, err
	}
	r = NameRule{Low: d.low, High: d.high, Protocols: d.protocols}
	if host == "*" {
		return r, errors.New(`"*" would be every name there is: set network.mode to "open" to reach everything, or name a domain as *.example.com`)
	}
	name, wildcard := strings.CutPrefix(host, "*.")
	r.Wildcard = wildcard
	if strings.Contains(name, "*") {
		return r, errors.New("a wildcard stands for whole labels at the beginning only: *.example.com")
	}
	if strings.Contains(name, "/") {
		return r, errors.New("a name has no prefix length")
	}
	if endsInNumber(name) {
		return r, fmt.Errorf("%q ends in a number, so programs take it for an address", name)
	}
	if r.Name, err = CanonicalName(name); err != nil {
		return r, err
	}
	if r.Name == "localhost" || strings.HasSuffix(r.Name, ".localhost") {
		return r, errors.New("localhost is the job itself, which needs no rule")
	}
	return r, nil
}

// CanonicalName is the one way to write a host name: lower case, international names as the network carries them
// (xn--…), no dot at the end. Only letters, digits, hyphens and underscores make a label, so that no two programs split a
// name differently.
func CanonicalName(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	name := strings.ToLower(s)
	if !isASCII(s) {
		var err error
		if name, err = idna.Lookup.ToASCII(s); err != nil {
			return "", fmt.Errorf("%q is not an international domain name: %w", s, err)
		}
	}
	if name == "" || len(name) > 253 {
		return "", fmt.Errorf("a name has 1 to 253 characters, this one %d", len(name))
	}
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return "", fmt.Errorf("%q is not a domain name: %w", s, err)
		}
	}
	return name, nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > 63 {
		return fmt.Errorf("a label has 1 to 63 characters, one here %d", len(label))
	}
	for i := range len(label) {
		if c := label[i]; !isLetter(c) && !isDigit(c) && c != '-' && c != '_' {
			return fmt.Errorf("%q has no place in a label", string(rune(c)))
		}
	}
	if label[0] == '-' || label[len(label)-1] == '-' {
		return fmt.Errorf("label %q begins or ends with a hyphen", label)
	}
	return nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
