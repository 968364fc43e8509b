package harness

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// Names is an authoritative name server of the world.
type Names struct {
	mu    sync.Mutex
	zone  []dns.RR
	asked []string
}

// ServeNames answers on port 53 of an address of the world, over UDP and TCP, until the test ends. Records are lines of a
// zone file with full names; an alias is answered with what it leads to.
func (w *World) ServeNames(addr string, records ...string) *Names {
	w.t.Helper()
	n := &Names{}
	n.Set(w, records...)
	var udp net.PacketConn
	var tcp net.Listener
	err := InNetns(w.Ns, func() (err error) {
		var l net.ListenConfig
		at := net.JoinHostPort(addr, "53")
		if udp, err = l.ListenPacket(context.Background(), "udp", at); err != nil {
			return err
		}
		tcp, err = l.Listen(context.Background(), "tcp", at)
		return err
	})
	if err != nil {
		w.t.Fatalf("listen: %v", err)
	}
	for _, s := range []*dns.Server{{PacketConn: udp, Handler: n}, {Listener: tcp, Handler: n}} {
		started, ended := make(chan struct{}), make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { defer close(ended); s.ActivateAndServe() }()
		<-started
		w.t.Cleanup(func() { s.Shutdown(); <-ended })
	}
	return n
}

// Set replaces the records.
func (n *Names) Set(w *World, records ...string) {
	w.t.Helper()
	var zone []dns.RR
	for _, line := range records {
		rr, err := dns.NewRR(line)
		if err != nil {
			w.t.Fatalf("record %q: %v", line, err)
		}
		zone = append(zone, rr)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.zone = zone
}

// Asked lists what was asked for, as "name TYPE" in lower case.
func (n *Names) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

// ServeDNS is the server's handler.
func (n *Names) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	n.mu.Lock()
	question := q.Question[0]
	name := strings.ToLower(question.Name)
	n.asked = append(n.asked, strings.TrimSuffix(name, ".")+" "+dns.TypeToString[question.Qtype])
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative, m.Rcode = true, dns.RcodeNameError
	for alias := true; alias; {
		alias = false
		for _, rr := range n.zone {
			h := rr.Header()
			if h.Name != name {
				continue
			}
			m.Rcode = dns.RcodeSuccess
			if h.Rrtype == question.Qtype || h.Rrtype == dns.TypeCNAME {
				m.Answer = append(m.Answer, rr)
			}
			if c, ok := rr.(*dns.CNAME); ok {
				name, alias = c.Target, true
				break
			}
		}
	}
	n.mu.Unlock()
	if w.LocalAddr().Network() == "udp" {
		size := dns.MinMsgSize
		if opt := q.IsEdns0(); opt != nil {
			size = int(opt.UDPSize())
		}
		m.Truncate(size)
	}
	w.WriteMsg(m)
}
