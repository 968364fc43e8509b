package resolver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/netns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zone is an authoritative server on loopback: records by "name TYPE", and what was asked.
type zone struct {
	addr    netip.AddrPort
	records map[string][]string

	mu     sync.Mutex
	answer func(w dns.ResponseWriter, q *dns.Msg) bool // replaces the usual answer when it returns true
	asked  []string
}

func newZone(t *testing.T, records map[string][]string) *zone {
	t.Helper()
	z := &zone{records: records}
	udp, tcp := sockets(t)
	z.addr = netip.MustParseAddrPort(udp.LocalAddr().String())
	for _, s := range []*dns.Server{{PacketConn: udp, Handler: z}, {Listener: tcp, Handler: z}} {
		started, ended := make(chan struct{}), make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { defer close(ended); s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { s.Shutdown(); <-ended })
	}
	return z
}

// sockets are a UDP and a TCP socket on one port of loopback.
func sockets(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tcp, err := net.Listen("tcp4", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp
		}
		udp.Close()
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil, nil
}

func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	question := q.Question[0]
	name := strings.ToLower(question.Name)
	z.mu.Lock()
	z.asked = append(z.asked, fmt.Sprintf("%s %s %s", w.LocalAddr().Network(), name, dns.TypeToString[question.Qtype]))
	answer := z.answer
	z.mu.Unlock()
	if answer != nil && answer(w, q) {
		return
	}
	m := new(dns.Msg)
	m.SetReply(q)
	m.Rcode = dns.RcodeNameError
	for range 10 {
		for key, list := range z.records {
			owner, kind, _ := strings.Cut(key, " ")
			if owner != name {
				continue
			}
			m.Rcode = dns.RcodeSuccess
			if kind != dns.TypeToString[question.Qtype] && kind != "CNAME" {
				continue
			}
			for _, data := range list {
				rr, err := dns.NewRR(owner + " " + data)
				if err != nil {
					panic(err)
				}
				m.Answer = append(m.Answer, rr)
			}
		}
		last := len(m.Answer) - 1
		if last < 0 || m.Answer[last].Header().Rrtype != dns.TypeCNAME {
			break
		}
		name = m.Answer[last].(*dns.CNAME).Target
	}
	if w.LocalAddr().Network() == "udp" {
		size := dns.MinMsgSize
		if opt := q.IsEdns0(); opt != nil {
			size = int(opt.UDPSize())
		}
		m.Truncate(size)
	}
	w.WriteMsg(m)
}

func (z *zone) answerBy(fn func(w dns.ResponseWriter, q *dns.Msg) bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.answer = fn
}

func (z *zone) questions() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.Clone(z.asked)
}

// kernel stands for the kernel's list.
type kernel struct {
	mu   sync.Mutex
	pins map[netip.Addr][]bpf.Ports
	busy map[netip.Addr]bool
	err  error
}

func (k *kernel) failBy(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *kernel) Pin(a netip.Addr, ports []bpf.Ports) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.pins[a] = ports
	return nil
}

func (k *kernel) Unpin(a netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pins, a)
	return k.err
}

func (k *kernel) Busy(a netip.Addr) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.busy[a], nil
}

func (k *kernel) pinned() map[netip.Addr][]bpf.Ports {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[netip.Addr][]bpf.Ports{}
	for a, p := range k.pins {
		out[a] = p
	}
	return out
}

// world is a resolver with one jail, in front of a zone.
type world struct {
	t      *testing.T
	zone   *zone
	kernel *kernel
	jail   *Jail
	addr   string

	mu      sync.Mutex
	refused []Refusal
	faults  []error
}

func newWorld(t *testing.T, records map[string][]string, r Rules, change ...func(*Options, *JailOptions)) *world {
	t.Helper()
	w := &world{t: t, zone: newZone(t, records), kernel: &kernel{pins: map[netip.Addr][]bpf.Ports{}, busy: map[netip.Addr]bool{}}}
	o := Options{
		Upstreams: func() []netip.AddrPort { return []netip.AddrPort{w.zone.addr} },
		Reserved: func(a netip.Addr) (bool, error) {
			return a == netip.MustParseAddr("203.0.113.2") || a.IsLinkLocalUnicast() || a.IsLoopback(), nil
		},
	}
	j := JailOptions{Rules: r, Pins: w.kernel}
	j.Refused = func(r Refusal) { w.mu.Lock(); defer w.mu.Unlock(); w.refused = append(w.refused, r) }
	j.Fault = func(err error) { w.mu.Lock(); defer w.mu.Unlock(); w.faults = append(w.faults, err) }
	j.UDP, j.TCP = sockets(t)
	w.addr = j.UDP.LocalAddr().String()
	for _, c := range change {
		c(&o, &j)
	}
	resolver, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(resolver.Close)
	if w.jail, err = resolver.Serve(j); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.jail.Close(); err != nil {
			t.Errorf("close the jail: %v", err)
		}
		if left := w.kernel.pinned(); len(left) != 0 {
			t.Errorf("pins are left: %v", left)
		}
	})
	return w
}

func (w *world) refusals() []Refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refused)
}

// ask asks over UDP, and over TCP when the answer is cut short, as programs do.
func (w *world) ask(name string, qtype uint16) *dns.Msg {
	w.t.Helper()
	m := w.exchange("udp", name, qtype)
	if m.Truncated {
		m = w.exchange("tcp", name, qtype)
	}
	return m
}

func (w *world) exchange(network, name string, qtype uint16) *dns.Msg {
	w.t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name, qtype)
	q.SetEdns0(udpSize, false)
	c := dns.Client{Net: network, Timeout: 10 * time.Second}
	m, _, err := c.ExchangeContext(context.Background(), q, w.addr)
	if err != nil {
		w.t.Fatalf("%s %s %s: %v", network, name, dns.TypeToString[qtype], err)
	}
	if m.Question[0] != q.Question[0] {
		w.t.Errorf("asked %v, the answer says %v", q.Question[0], m.Question[0])
	}
	return m
}

// addresses of an answer, in order.
func addresses(m *dns.Msg) []string {
	var out []string
	for _, a := range addressesOf(m.Answer) {
		out = append(out, a.String())
	}
	return out
}

func extended(m *dns.Msg) *dns.EDNS0_EDE {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return e
			}
		}
	}
	return nil
}

// rules parses rules as a request writes them.
func rules(t *testing.T, allow ...string) Rules {
	t.Helper()
	return Rules{Allow: parse(t, allow)}
}

func parse(t testing.TB, texts []string) []netns.NameRule {
	t.Helper()
	var out []netns.NameRule
	for _, s := range texts {
		r, err := netns.ParseNameRule(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}
