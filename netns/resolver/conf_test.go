package resolver

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadConf(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	behind := write("behind", "nameserver 10.0.0.2\nnameserver fe80::1%eth0\nsearch ignored.test\n")
	for text, want := range map[string]Conf{
		"nameserver 10.0.0.1\nsearch a.test b.test\noptions ndots:5 timeout:2\n": {
			Upstreams: ports("10.0.0.1"), Search: []string{"a.test", "b.test"}, Ndots: 5},
		"nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch c.test\n": {Upstreams: ports("10.0.0.2", "fe80::1%eth0"), Search: []string{"c.test"}, Ndots: 1},
		"nameserver 127.0.0.53\nnameserver 10.0.0.1\n":                   {Upstreams: ports("127.0.0.53", "10.0.0.1"), Ndots: 1},
		"nameserver 127.0.0.1\n":                                         {Upstreams: ports("127.0.0.1"), Ndots: 1}, // the node's own loopback: reachable from there
		"# nothing\n":                                                    {Upstreams: ports("10.0.0.2", "fe80::1%eth0"), Ndots: 1},
	} {
		got, err := ReadConf(write("resolv.conf", text), behind)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	if c, err := ReadConf(write("resolv.conf", "nameserver 127.0.0.53\n"), filepath.Join(dir, "missing")); err != nil || len(c.Upstreams) != 1 {
		t.Errorf("a stub with nothing behind it: %+v, %v", c, err)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), write("bad", "nameserver here\n")} {
		if _, err := ReadConf(path, behind); err == nil {
			t.Errorf("%s: read", path)
		}
	}
}

func ports(list ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range list {
		out = append(out, netip.AddrPortFrom(netip.MustParseAddr(s), 53))
	}
	return out
}

func TestConfForJail(t *testing.T) {
	c := Conf{Search: []string{"a.test", "b.test"}, Ndots: 5}
	want := "nameserver 127.0.0.53\nsearch a.test b.test\noptions edns0 ndots:5\n"
	if got := string(c.ForJail(netip.MustParseAddr("127.0.0.53"))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(Conf{Ndots: 1}.ForJail(netip.MustParseAddr("127.0.0.53"))); got != "nameserver 127.0.0.53\noptions edns0\n" {
		t.Errorf("%q", got)
	}
}
