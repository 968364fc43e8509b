package agent

import (
	"bufio"
	"bytes"
	"net/netip"
	"os"
	"strings"
)

// jobResolvConf is the resolv.conf of a job that has a network: the node's own resolvers without those on loopback, which
// a job's loopback does not have, from the first of the files that names any.
func jobResolvConf(paths ...string) []byte {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if out := reachableResolvers(text); len(out) > 0 {
			return out
		}
	}
	return []byte("# this node names no resolver that a job could reach\n")
}

func reachableResolvers(text []byte) []byte {
	var out bytes.Buffer
	found := false
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(f[1]); err != nil || a.IsLoopback() {
				continue
			}
			found = true
		case "search", "options":
		default:
			continue
		}
		out.WriteString(strings.Join(f, " ") + "\n")
	}
	if !found {
		return nil
	}
	return out.Bytes()
}
