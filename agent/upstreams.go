package agent

import (
	"fmt"
	"net/netip"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/netns"
	"github.com/tolbooth-dev/tolbooth/netns/resolver"
)

// resolvedConf is where systemd-resolved writes which servers are behind its stub.
const resolvedConf = "/run/systemd/resolve/resolv.conf"

// openLookups makes the resolver of all jobs. A node without resolvers runs jobs; their lookups fail and say so.
func (b *built) openLookups(c DNSConfig, egress *bpf.Egress) (lookup, error) {
	conf, err := resolver.ReadConf(c.ResolvConf, resolvedConf)
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	named, err := parseUpstreams(c.Upstreams)
	if err != nil {
		return lookup{}, err
	}
	if len(named) > 0 {
		conf.Upstreams = named
	} else if len(conf.Upstreams) == 0 {
		if problem == "" {
			problem = c.ResolvConf + " names none"
		}
		b.problems = append(b.problems, api.NodeProblem{
			What: "jobs cannot look names up", Why: "this node has no resolvers to ask: " + problem, Fix: "set network.dns_upstreams, or mend network.resolv_conf",
		})
	}
	r, err := resolver.New(resolver.Options{Upstreams: conf.Upstreams, Reserved: egress.Reserved})
	if err != nil {
		return lookup{}, err
	}
	b.back.Push("stop the resolver", func() error { r.Close(); return nil })
	b.resolv = conf.ForJail(netns.DNSAddress)
	budget := resolver.DefaultBudget()
	budget.Queries, budget.Names = c.Queries, c.Names
	return lookup{resolver: r, budget: budget, search: conf.Search, faults: b.faults}, nil
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
