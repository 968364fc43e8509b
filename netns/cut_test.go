package netns

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// TestCutEndsWhatIsNoLongerAllowed: a new policy is in force, and what only the old one allowed ends with an error at once,
// while what both allow goes on, datagrams that are on their way included.
func TestCutEndsWhatIsNoLongerAllowed(t *testing.T) {
	eachHook(t, func(t *testing.T, hook bpf.Hook) {
		w := newWorld(t, hook)
		j := w.newJail("allow", []string{allowed4, denied4, "[" + allowed6 + "]", "[" + denied6 + "]"}, nil)
		open := func(network, addr string) net.Conn {
			var c net.Conn
			in(t, j.ns, func() { c = must(net.Dial(network, net.JoinHostPort(addr, "443")))(t) })
			t.Cleanup(func() { c.Close() })
			check(t, c.SetDeadline(time.Now().Add(10*time.Second)))
			return c
		}
		echo := func(c net.Conn) error {
			if _, err := c.Write([]byte("x")); err != nil {
				return err
			}
			_, err := io.ReadFull(c, make([]byte, 1))
			return err
		}
		kept := []net.Conn{open("tcp", allowed4), open("tcp", allowed6), open("udp", allowed4), open("udp", allowed6)}
		ended := []net.Conn{open("tcp", denied4), open("tcp", denied6), open("udp", denied4), open("udp", denied6)}
		for _, c := range append(kept, ended...) {
			check(t, echo(c))
		}
		policy := must(ParsePolicy("allow", []string{allowed4, "[" + allowed6 + "]"}, nil))(t)
		tight, release, err := w.egress.SetPolicy(policy)
		check(t, err)
		defer release()
		waits := kept[2]
		_, err = waits.Write([]byte("y"))
		check(t, err)
		j.bindVeth(w.egress, tight)

		if n := must(j.ns.Cut(policy.Allows))(t); n != len(ended) {
			t.Errorf("%d connections were cut, want %d", n, len(ended))
		}
		for _, c := range ended {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNABORTED) {
				t.Errorf("%s %s: %v, want ECONNABORTED", c.RemoteAddr().Network(), c.RemoteAddr(), err)
			}
		}
		_, err = io.ReadFull(waits, make([]byte, 1))
		check(t, err)
		for _, c := range kept {
			check(t, echo(c))
		}
		if n := must(j.ns.Cut(policy.Allows))(t); n != 0 {
			t.Errorf("%d more were cut", n)
		}
	})
}
