package resolver

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func TestUpstreamsThatFail(t *testing.T) {
	dead := deadPort(t)
	w := newWorld(t, map[string][]string{"api.test. A": {"60 IN A 203.0.113.10"}}, rules(t, "api.test:443"), func(o *Options, _ *JailOptions) {
		usual := o.Upstreams()
		o.Upstreams = func() []netip.AddrPort { return append([]netip.AddrPort{dead}, usual...) }
	})
	if got := addresses(w.ask("api.test.", dns.TypeA)); len(got) != 1 {
		t.Errorf("the second upstream was not asked: %v", got)
	}
	silent, _ := net.ListenPacket("udp4", "127.0.0.1:0")
	defer silent.Close()
	for what, addrs := range map[string][]netip.AddrPort{
		"dead": {dead}, "silent": {netip.MustParseAddrPort(silent.LocalAddr().String())}, "none": nil,
	} {
		w := newWorld(t, nil, rules(t, "api.test:443"), func(o *Options, _ *JailOptions) {
			o.Upstreams, o.Attempt, o.Limit = func() []netip.AddrPort { return addrs }, 100*time.Millisecond, 300*time.Millisecond
		})
		m := w.ask("api.test.", dns.TypeA)
		if e := extended(m); m.Rcode != dns.RcodeServerFailure || e == nil || e.InfoCode != dns.ExtendedErrorCodeNoReachableAuthority {
			t.Errorf("%s: %s", what, m)
		}
	}
}

func deadPort(t *testing.T) netip.AddrPort {
	t.Helper()
	udp, tcp := sockets(t)
	defer udp.Close()
	defer tcp.Close()
	return netip.MustParseAddrPort(udp.LocalAddr().String())
}

func TestForgedAnswersArePassedOver(t *testing.T) {
	var spelledDown atomic.Bool
	w := newWorld(t, map[string][]string{"api.test. A": {"60 IN A 203.0.113.10"}}, rules(t, "api.test:443"))
	w.zone.answerBy(func(rw dns.ResponseWriter, q *dns.Msg) bool {
		if rw.LocalAddr().Network() == "tcp" {
			return false
		}
		forge := func(change func(m *dns.Msg)) {
			m := new(dns.Msg)
			m.SetReply(q)
			rr, _ := dns.NewRR("api.test. 60 IN A 203.0.113.66")
			m.Answer = []dns.RR{rr}
			change(m)
			rw.WriteMsg(m)
		}
		forge(func(m *dns.Msg) { m.Id++ })
		forge(func(m *dns.Msg) { m.Response = false })
		forge(func(m *dns.Msg) { m.Question[0].Name = "other.test." })
		forge(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA })
		rw.Write([]byte("not a message"))
		if spelledDown.Load() {
			forge(func(m *dns.Msg) { m.Question[0].Name = strings.ToLower(m.Question[0].Name) })
			return true
		}
		return false
	})
	if got := addresses(w.ask("api.test.", dns.TypeA)); !slices.Equal(got, []string{"203.0.113.10"}) {
		t.Errorf("%v, want the true answer", got)
	}
	// An answer that does not know the spelling is not taken; TCP settles it.
	spelledDown.Store(true)
	if got := addresses(w.ask("api.test.", dns.TypeA)); !slices.Equal(got, []string{"203.0.113.10"}) {
		t.Errorf("%v, want the answer over TCP", got)
	}
}
