package agent

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/netns"
	"github.com/tolbooth-dev/tolbooth/netns/resolver"
)

// resolvedConf is where systemd-resolved writes which servers are behind its stub.
const resolvedConf = "/run/systemd/resolve/resolv.conf"

// openLookups makes the resolver of all jobs. A node without resolvers runs jobs; their lookups fail and say so.
func (b *built) openLookups(c DNSConfig, egress *bpf.Egress) (lookup, error) {
	named, err := parseUpstreams(c.Upstreams)
	if err != nil {
		return lookup{}, err
	}
	node := &nodeResolvers{path: c.ResolvConf, named: named}
	conf, err := node.read()
	if why := "network.resolv_conf names none"; len(conf.Upstreams) == 0 {
		if err != nil {
			why = err.Error()
		}
		b.problems = append(b.problems, api.NodeProblem{
			What: "jobs cannot look names up", Why: "this node has no resolvers to ask: " + why, Fix: "mend network.resolv_conf, or set network.dns_upstreams",
		})
	}
	r, err := resolver.New(resolver.Options{Upstreams: node.upstreams, Reserved: egress.Reserved})
	if err != nil {
		return lookup{}, err
	}
	b.network.Push("stop the resolver", func() error { r.Close(); return nil })
	b.resolv = conf.ForJail(netns.DNSAddress)
	budget := resolver.DefaultBudget()
	budget.Queries, budget.Names = c.Queries, c.Names
	return lookup{resolver: r, budget: budget, search: conf.Search, faults: b.faults}, nil
}

// nodeResolvers are the node's resolvers as its files have them now: DHCP, VPNs and people change them.
type nodeResolvers struct {
	path  string
	named []netip.AddrPort // by the operator, instead of those in the file

	mu   sync.Mutex
	last resolver.Conf
	at   time.Time
}

// resolversHold is how long the files are not read again.
const resolversHold = 5 * time.Second

func (n *nodeResolvers) read() (resolver.Conf, error) {
	conf, err := resolver.ReadConf(n.path, resolvedConf)
	if len(n.named) > 0 {
		conf.Upstreams = n.named
	}
	n.last, n.at = conf, time.Now()
	return conf, err
}

// upstreams are those to ask now. While a file cannot be read, since it is being replaced, the last ones are.
func (n *nodeResolvers) upstreams() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	if before := n.last; time.Since(n.at) > resolversHold {
		if _, err := n.read(); err != nil {
			n.last = before
		}
	}
	return n.last.Upstreams
}

// parseUpstreams reads resolvers as ADDRESS or ADDRESS:PORT, an IPv6 address with a port in brackets.
func parseUpstreams(list []string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, s := range list {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, netip.AddrPortFrom(a, 53))
			continue
		}
		a, err := netip.ParseAddrPort(s)
		if err != nil || a.Port() == 0 {
			return nil, fmt.Errorf("%.128q is not an address such as 10.96.0.10, 10.96.0.10:5353 or [fd00::a]:5353", s)
		}
		out = append(out, a)
	}
	return out, nil
}
