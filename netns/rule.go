package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// ErrDomain is a rule that names a host instead of an address: ParseNameRule reads it.
var ErrDomain = errors.New("a rule by domain name, not by address")

// maxRuleText bounds a rule before anything looks at it; quoted bounds what of it a message repeats.
const (
	maxRuleText = 300
	quoted      = 128
)

// ParseRule reads one rule of a request: ADDRESS[/LENGTH][:PORT[-PORT]][/PROTOCOL], with an IPv6 address in brackets
// (its length inside or after them). The protocol is tcp, udp or icmp. Without one, a rule with ports means tcp and udp,
// and a rule without ports everything. Only one way to write an address is understood, since other programs do not agree
// on what the others mean.
func ParseRule(s string) (bpf.Rule, error) {
	r, err := parseRule(s)
	if err != nil {
		return bpf.Rule{}, ruleError(s, err)
	}
	return r, nil
}

func ruleError(s string, err error) error {
	if len(s) > quoted {
		s = s[:quoted] + "…"
	}
	return fmt.Errorf("network rule %q: %w", s, err)
}

func parseRule(s string) (r bpf.Rule, err error) {
	if len(s) > maxRuleText {
		return r, fmt.Errorf("longer than %d bytes", maxRuleText)
	}
	address, d, err := cutDestination(s)
	if err != nil {
		return r, err
	}
	r = bpf.Rule{Low: d.low, High: d.high, Protocols: d.protocols}
	r.Prefix, err = parsePrefix(address)
	return r, err
}

// destination is what a rule says beside the host.
type destination struct {
	low, high uint16
	protocols bpf.Protocols
}

// cutDestination takes ports and protocol off a rule.
func cutDestination(s string) (host string, d destination, err error) {
	rest, protocol := cutProtocol(s)
	host, ports, hasPorts, err := cutPorts(rest)
	if err != nil {
		return "", d, err
	}
	d = destination{0, 65535, bpf.AllProtocols}
	if hasPorts {
		d.protocols = bpf.TCP | bpf.UDP
		if d.low, d.high, err = parsePorts(ports); err != nil {
			return "", d, err
		}
	}
	switch protocol {
	case "":
	case "tcp":
		d.protocols = bpf.TCP
	case "udp":
		d.protocols = bpf.UDP
	case "icmp":
		d.protocols = bpf.ICMP
		if hasPorts {
			return "", d, errors.New("icmp has no ports")
		}
	default:
		return "", d, fmt.Errorf("unknown protocol %q: want tcp, udp or icmp", protocol)
	}
	return host, d, nil
}

// cutProtocol takes off a last /word that begins with a letter; a prefix length does not.
func cutProtocol(s string) (rest, protocol string) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 || i+1 == len(s) || !isLetter(s[i+1]) || strings.HasSuffix(s, "]") {
		return s, ""
	}
	return s[:i], s[i+1:]
}

// cutPorts separates the address from the ports, and takes off the brackets.
func cutPorts(s string) (address, ports string, hasPorts bool, err error) {
	inside, bracketed := strings.CutPrefix(s, "[")
	if !bracketed {
		if strings.Count(s, ":") > 1 {
			return "", "", false, errors.New("write an IPv6 address in brackets: [fd00::1]:443")
		}
		address, ports, hasPorts = strings.Cut(s, ":")
		return address, ports, hasPorts, nil
	}
	address, after, closed := strings.Cut(inside, "]")
	if !closed {
		return "", "", false, errors.New("bracket without its end")
	}
	if host, _, _ := strings.Cut(address, "/"); !strings.Contains(host, ":") {
		return "", "", false, errors.New("brackets are for IPv6 addresses")
	}
	length, ports, hasPorts := strings.Cut(after, ":")
	if length != "" {
		if length[0] != '/' || strings.Contains(address, "/") {
			return "", "", false, fmt.Errorf("unexpected %q after the address", length)
		}
		address += length
	}
	return address, ports, hasPorts, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	name, length, hasLength := strings.Cut(s, "/")
	addr, err := parseAddr(name)
	if err != nil {
		return netip.Prefix{}, err
	}
	if !hasLength {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	bits, err := parseNumber(length, addr.BitLen())
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("prefix length %w", err)
	}
	p := netip.PrefixFrom(addr, bits)
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("address bits after the prefix length: did you mean %s?", p.Masked())
	}
	return p, nil
}

func parseAddr(s string) (netip.Addr, error) {
	if s == "" {
		return netip.Addr{}, errors.New("no address")
	}
	if strings.Contains(s, ":") {
		addr, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			return addr, fmt.Errorf("%q is not an IPv6 address", s)
		case addr.Zone() != "":
			return addr, errors.New("an address with a zone means nothing outside its own machine")
		case addr.Is4In6():
			return addr, fmt.Errorf("write the IPv4 address as %s", addr.Unmap())
		}
		return addr, nil
	}
	if endsInNumber(s) {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return addr, fmt.Errorf("%q is not an IPv4 address: write four decimal numbers from 0 to 255 without leading zeros", s)
		}
		return addr, nil
	}
	if isDomain(s) {
		return netip.Addr{}, ErrDomain
	}
	return netip.Addr{}, fmt.Errorf("%q is neither an address nor a domain name", s)
}

// endsInNumber is how browsers and resolvers tell an IPv4 address, in whatever notation, from a name: by its last label.
func endsInNumber(s string) bool {
	s = strings.TrimSuffix(s, ".")
	last := strings.ToLower(s[strings.LastIndexByte(s, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// isDomain accepts what may be meant as a name, wildcards included; ParseNameRule then says what is wrong with it.
func isDomain(s string) bool {
	s = strings.ReplaceAll(s, "*", "x")
	for i := range len(s) {
		c := s[i]
		if !isLetter(c) && !isDigit(c) && c != '-' && c != '.' && c != '_' && c < 0x80 {
			return false
		}
	}
	return s != "" && s[0] != '.' && !strings.Contains(s, "..")
}

func parsePorts(s string) (low, high uint16, err error) {
	first, last, isRange := strings.Cut(s, "-")
	a, err := parsePort(first)
	if err != nil {
		return 0, 0, err
	}
	if !isRange {
		return a, a, nil
	}
	b, err := parsePort(last)
	if err != nil {
		return 0, 0, err
	}
	if a > b {
		return 0, 0, fmt.Errorf("ports %d-%d are the wrong way round", a, b)
	}
	return a, b, nil
}

func parsePort(s string) (uint16, error) {
	n, err := parseNumber(s, 65535)
	if err != nil {
		return 0, fmt.Errorf("port %w", err)
	}
	if n == 0 {
		return 0, errors.New("port 0 is none")
	}
	return uint16(n), nil
}

func parseNumber(s string, most int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > uint64(most) || len(s) > 1 && s[0] == '0' {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", s, most)
	}
	return int(n), nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
