package probe

import (
	"fmt"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// networkLayers build a small network in a namespace of its own, which ends with the thread that made it, and with it
// everything in it.
func networkLayers(egress string) []Layer {
	var layers []Layer
	err := inThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare (CLONE_NEWNET): %w", err)
		}
		veth, index := vethLayer()
		if egress != "" {
			layers = []Layer{connectHooks(), packetHooks(egress)}
		} else {
			layers = egressLayers(index)
		}
		layers = append(layers, veth, masqueradeLayer())
		return nil
	})
	if err == nil {
		return layers
	}
	const fix = "grant CAP_SYS_ADMIN"
	for _, name := range []string{"connect-hooks", "ebpf-egress", "veth", "masquerade"} {
		layers = append(layers, missing(name, err.Error(), fix))
	}
	return layers
}

// vethLayer makes a pair of interfaces and answers the index of one.
func vethLayer() (Layer, int) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "tbprobe0"
	err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "tbprobe1"})
	if err != nil {
		return missing("veth", fmt.Sprintf("add a veth pair: %v", err), "grant CAP_NET_ADMIN, on a kernel with CONFIG_VETH (modprobe veth)"), 0
	}
	l, err := netlink.LinkByName("tbprobe0")
	if err != nil {
		return missing("veth", fmt.Sprintf("find the new veth: %v", err), ""), 0
	}
	return ok("veth", ""), l.Attrs().Index
}

// masqueradeLayer makes the table that hides jails behind the node's address.
func masqueradeLayer() Layer {
	const fix = "grant CAP_NET_ADMIN, on a kernel with nf_tables and nft_masq; without it jobs reach this node's neighbours only if those know a way back"
	conn, err := nftables.New()
	if err != nil {
		return missing("masquerade", fmt.Sprintf("open nftables: %v", err), fix)
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "tb-probe"})
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
	if err := conn.Flush(); err != nil {
		return missing("masquerade", fmt.Sprintf("add an nftables masquerade rule: %v", err), fix)
	}
	return ok("masquerade", "nftables")
}

// forwardLayer reads whether this node passes packets on, or else whether the agent could turn that on.
func forwardLayer(host settings) Layer {
	var off []string
	writable := true
	for _, key := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		if host.sysctl(key) != "1" {
			off = append(off, key)
			writable = writable && unix.Access(host.path(key), unix.W_OK) == nil
		}
	}
	switch {
	case len(off) == 0:
		return ok("forwarding", "IPv4 and IPv6")
	case writable:
		return ok("forwarding", strings.Join(off, " and ")+" off; the agent turns it on, unless network.forward is false")
	}
	return missing("forwarding", strings.Join(off, " and ")+" off and not writable here: jobs reach this node itself, but nothing beyond it",
		"sysctl -w "+strings.Join(off, "=1 ")+"=1")
}
