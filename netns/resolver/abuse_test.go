package resolver

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestAFloodIsSlowed: a jail's questions are read at a pace, whatever it sends.
func TestAFloodIsSlowed(t *testing.T) {
	w := newWorld(t, nil, rules(t, "api.test"))
	c, err := net.Dial("udp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := new(dns.Msg)
	q.SetQuestion("evil.test.", dns.TypeA)
	text, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for i := range 20_000 {
		c.Write(text)
		if i%100 == 0 {
			time.Sleep(time.Millisecond) // so that the reader could keep up
		}
	}
	read := len(w.refusals())
	if most := burst + perSecond*time.Since(start).Seconds() + 1; float64(read) > most || read < burst/2 {
		t.Errorf("%d questions were read in %s, at most %.0f should be", read, time.Since(start), most)
	}
}

// FuzzQuestions: no message makes the resolver panic or send out a name that the rules do not allow.
func FuzzQuestions(f *testing.F) {
	for _, name := range []string{"api.test.", "evil.test.", `a\.b.wild.test.`, "x.wild.test.", ".", "wild.test."} {
		q := new(dns.Msg)
		q.SetQuestion(name, dns.TypeA)
		q.SetEdns0(1232, true)
		text, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	j := &Jail{
		resolver: &Resolver{room: make(chan struct{}, 1)}, budget: DefaultBudget(), rules: newTable(Rules{Allow: parse(f, []string{"api.test:443", "*.wild.test"})}),
		told: told{seen: map[toldKey]string{}}, ctx: context.Background(), o: JailOptions{Refused: func(Refusal) {}, Fault: func(error) {}},
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		q := new(dns.Msg)
		if q.Unpack(text) != nil || len(q.Question) != 1 {
			return
		}
		sent := false
		j.resolver.upstream = upstream{addrs: func() []netip.AddrPort { sent = true; return nil }, limit: time.Second}
		reply := j.answer(q)
		name := strings.ToLower(strings.TrimSuffix(q.Question[0].Name, "."))
		if sent && name != "api.test" && !strings.HasSuffix(name, ".wild.test") {
			t.Errorf("%q was sent out", name)
		}
		if _, err := reply.Pack(); err != nil && !strings.Contains(err.Error(), "rdata") {
			t.Errorf("%s: %v", reply, err)
		}
	})
}
