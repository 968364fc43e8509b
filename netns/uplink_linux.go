package netns

import (
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// uplinks are the devices that have a default route: what jobs send leaves the node there.
func (m *Manager) uplinks() ([]netlink.Link, error) {
	routes, err := whole(func() ([]netlink.Route, error) { return m.route.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	seen := map[int]bool{}
	var out []netlink.Link
	for _, r := range routes {
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones != 0 {
				continue
			}
		}
		link, err := m.route.LinkByIndex(r.LinkIndex)
		if err != nil || seen[r.LinkIndex] {
			continue // a multipath route names its devices elsewhere, and a device may have just gone
		}
		seen[r.LinkIndex] = true
		out = append(out, link)
	}
	return out, nil
}

// smallestMTU is what every uplink carries: a larger one on the veth would cost each connection a round of path MTU discovery.
func smallestMTU(uplinks []netlink.Link) int {
	mtu := 1500
	for _, l := range uplinks {
		// IPv6 needs 1280; below that only its own fragmentation would help.
		if n := l.Attrs().MTU; n >= 1280 {
			mtu = min(mtu, n)
		}
	}
	return mtu
}

// foreignPrograms tells of other people's programs on the uplinks: they judge what jobs send after us, so that what the rules
// allow may still not arrive, and nothing here knows why.
func (m *Manager) foreignPrograms(uplinks []netlink.Link) ([]Problem, error) {
	var problems []Problem
	err := m.inNode(func() error {
		for _, l := range uplinks {
			programs, err := bpf.ForeignPrograms(l.Attrs().Index)
			if err != nil {
				return err
			}
			if len(programs) == 0 {
				continue
			}
			problems = append(problems, Problem{
				What: fmt.Sprintf("BPF programs that are not tolbooth's handle packets on %s, where jobs reach the network", l.Attrs().Name),
				Why:  strings.Join(programs, "; "),
				Fix:  "none while jobs reach what their rules allow; else look there, as denials name nothing that these programs drop",
			})
		}
		return nil
	})
	return problems, err
}
