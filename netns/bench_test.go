package netns

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// guardedRules is as large as a policy gets in practice: 10,000 single addresses, and the one that is used among them.
func guardedRules() bpf.Policy {
	p := bpf.Policy{Mode: bpf.ModeAllow, Allow: []bpf.Rule{{Prefix: netip.MustParsePrefix(allowed4 + "/32"), High: 65535, Protocols: bpf.AllProtocols}}}
	for i := range 9_999 {
		addr := netip.AddrFrom4([4]byte{198, byte(i >> 14), byte(i >> 6), byte(i<<2) | 1})
		p.Allow = append(p.Allow, bpf.Rule{Prefix: netip.PrefixFrom(addr, 32), Low: 443, High: 443, Protocols: bpf.TCP})
	}
	return p
}

// pairs are two jails behind equal links, one of them judged by 10,000 rules and one by nobody.
func pairs(b *testing.B, w *world) map[string]*Namespace {
	id, release, err := w.egress.SetPolicy(guardedRules())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { check(b, release()) })
	out := map[string]*Namespace{}
	for name, guard := range map[string]func(*Link) error{
		"plain": unguarded,
		"guarded": func(l *Link) error {
			return w.egress.BindVeth(bpf.Veth{
				Ifindex: l.Ifindex, Slot: 1, Policy: id, Addr4: l.Addr4, Addr6: l.Addr6, JailMAC: l.JailMAC, NodeMAC: l.NodeMAC,
			})
		},
	} {
		ns := must(New())(b)
		b.Cleanup(func() { check(b, ns.Close()) })
		link := must(w.manager.Connect(ns, guard))(b)
		b.Cleanup(func() { check(b, w.egress.UnbindVeth(link.Ifindex)) })
		out[name] = ns
	}
	return out
}

// sink takes what comes to port 5001 of the outside, and answers with one byte when the sender is done.
func sink(b *testing.B, w *world) {
	in(b, w.outside, func() {
		l := must(net.Listen("tcp4", ":5001"))(b)
		b.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { io.Copy(io.Discard, c); c.Write([]byte{1}); c.Close() }()
			}
		}()
	})
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkStream is one TCP stream out of a jail, with 10,000 rules and without any program, turn by turn.
func BenchmarkStream(b *testing.B) {
	hosttest.Netns(b, func() {
		w := newWorld(b, bpf.HookAuto)
		sink(b, w)
		jails, times := pairs(b, w), map[string][]time.Duration{}
		const size = 256 << 20
		chunk := make([]byte, 1<<20)
		for b.Loop() {
			for name, ns := range jails {
				var c net.Conn
				in(b, ns, func() { c = must(net.Dial("tcp4", allowed4+":5001"))(b) })
				start := time.Now()
				for range size / len(chunk) {
					must(c.Write(chunk))(b)
				}
				check(b, c.(*net.TCPConn).CloseWrite())
				must(io.ReadFull(c, make([]byte, 1)))(b)
				times[name] = append(times[name], time.Since(start))
				c.Close()
			}
		}
		plain, guarded := median(times["plain"]), median(times["guarded"])
		rate := func(d time.Duration) float64 { return size * 8 / d.Seconds() / 1e9 }
		b.ReportMetric(rate(plain), "plain-Gbit/s")
		b.ReportMetric(rate(guarded), "guarded-Gbit/s")
		b.ReportMetric(rate(guarded)/rate(plain), "guarded/plain")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkRoundTrip is one byte to and fro, with 10,000 rules and without any program, turn by turn.
func BenchmarkRoundTrip(b *testing.B) {
	hosttest.Netns(b, func() {
		w := newWorld(b, bpf.HookAuto)
		jails, times, conns := pairs(b, w), map[string][]time.Duration{}, map[string]net.Conn{}
		for name, ns := range jails {
			in(b, ns, func() { conns[name] = must(net.Dial("tcp4", allowed4+":443"))(b) })
			b.Cleanup(func() { conns[name].Close() })
		}
		buf := make([]byte, 1)
		for b.Loop() {
			for name, c := range conns {
				start := time.Now()
				must(c.Write(buf))(b)
				must(io.ReadFull(c, buf))(b)
				times[name] = append(times[name], time.Since(start))
			}
		}
		plain, guarded := median(times["plain"]), median(times["guarded"])
		b.ReportMetric(float64(plain.Nanoseconds())/1000, "plain-p50-µs")
		b.ReportMetric(float64(guarded.Nanoseconds())/1000, "guarded-p50-µs")
		b.ReportMetric(float64((guarded-plain).Nanoseconds())/1000, "added-µs")
		b.ReportMetric(0, "ns/op")
	})
}
