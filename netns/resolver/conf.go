package resolver

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Conf is what a node's resolv.conf says that matters to jobs.
type Conf struct {
	Upstreams []netip.AddrPort
	Search    []string
	Ndots     int
}

// stub is where systemd-resolved listens; the servers that it asks are in a file of its own.
var stub = netip.MustParseAddr("127.0.0.53")

// ReadConf reads a node's resolv.conf. Where that names systemd's stub alone, the servers behind it are taken from behind,
// the file that systemd-resolved writes, when that names any.
func ReadConf(path, behind string) (Conf, error) {
	c, err := readConf(path)
	if err != nil {
		return c, err
	}
	if slices.ContainsFunc(c.Upstreams, func(a netip.AddrPort) bool { return a.Addr() != stub }) {
		return c, nil
	}
	if real, err := readConf(behind); err == nil && len(real.Upstreams) > 0 {
		c.Upstreams = real.Upstreams
	}
	return c, nil
}

func readConf(path string) (Conf, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Conf{}, fmt.Errorf("read the node's resolvers: %w", err)
	}
	parsed, err := dns.ClientConfigFromReader(bytes.NewReader(text))
	if err != nil {
		return Conf{}, fmt.Errorf("read the node's resolvers: %s: %w", path, err)
	}
	c := Conf{Search: parsed.Search, Ndots: parsed.Ndots}
	for _, s := range parsed.Servers {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return Conf{}, fmt.Errorf("read the node's resolvers: %s: %q is no address", path, s)
		}
		c.Upstreams = append(c.Upstreams, netip.AddrPortFrom(a, 53))
	}
	return c, nil
}

// ForJail is the resolv.conf of a jail whose resolver listens on address: the node's search list and ndots, so that short
// names mean the same as outside.
func (c Conf) ForJail(address netip.Addr) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "nameserver %s\n", address)
	if len(c.Search) > 0 {
		fmt.Fprintf(&out, "search %s\n", strings.Join(c.Search, " "))
	}
	options := []string{"edns0"} // explanations come by EDNS
	if c.Ndots > 1 {
		options = append(options, fmt.Sprintf("ndots:%d", c.Ndots))
	}
	fmt.Fprintf(&out, "options %s\n", strings.Join(options, " "))
	return out.Bytes()
}
