package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// networkLayers build a small network in a namespace of its own, which ends with the thread that made it, and with it
// everything in it.
func networkLayers() []Layer {
	var layers []Layer
	err := inThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare (CLONE_NEWNET): %w", err)
		}
		veth, index := vethLayer()
		layers = []Layer{veth, egressLayer(index), masqueradeLayer()}
		return nil
	})
	if err == nil {
		return layers
	}
	const fix = "grant CAP_SYS_ADMIN"
	for _, name := range []string{"veth", "ebpf-egress", "masquerade"} {
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

// egressLayer attaches a packet program, and makes the kind of map that its events travel in.
func egressLayer(index int) Layer {
	if index == 0 {
		return missing("ebpf-egress", "no veth to attach a program to", "see veth")
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "tb_probe",
		Type:         ebpf.SchedCLS,
		License:      "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return missing("ebpf-egress", fmt.Sprintf("load a packet program: %v", short(err)), bpfFix(err))
	}
	defer program.Close()
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "tb_probe", Type: ebpf.RingBuf, MaxEntries: uint32(os.Getpagesize())})
	if err != nil {
		return missing("ebpf-egress", fmt.Sprintf("make a ring buffer: %v", err), bpfFix(err))
	}
	ring.Close()

	how, err := attach(program, index)
	if err != nil {
		return missing("ebpf-egress", err.Error(), bpfFix(err))
	}
	return ok("ebpf-egress", how+", ring buffer")
}

// attach tries tcx (kernel 6.6), then the older clsact.
func attach(program *ebpf.Program, index int) (how string, err error) {
	l, tcxErr := link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: ebpf.AttachTCXIngress})
	if tcxErr == nil {
		return "tcx", l.Close()
	}
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := netlink.QdiscAdd(qdisc); err != nil {
		return "", fmt.Errorf("attach by tcx: %w; by clsact: %w", tcxErr, err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs:  netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:           program.FD(),
		Name:         "tb_probe",
		DirectAction: true,
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return "", fmt.Errorf("attach by tcx: %w; by clsact: %w", tcxErr, err)
	}
	return "clsact (no tcx before kernel 6.6)", nil
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

// forwardLayer reads whether this node passes packets on.
func forwardLayer() Layer {
	var off []string
	for _, key := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		if readSysctl(key) != "1" {
			off = append(off, key)
		}
	}
	if len(off) > 0 {
		return missing("forwarding", strings.Join(off, " and ")+" off: jobs reach this node itself, but nothing beyond it",
			"sysctl -w "+strings.Join(off, "=1 ")+"=1")
	}
	return ok("forwarding", "IPv4 and IPv6")
}

func bpffsLayer() Layer {
	const dir, magic = "/sys/fs/bpf", 0xcafe4a11
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return missing("bpffs", dir+" does not exist", "use a kernel with CONFIG_BPF_SYSCALL and mount sysfs")
	case err != nil:
		return missing("bpffs", fmt.Sprintf("statfs %s: %v", dir, err), "")
	case fs.Type != magic:
		return missing("bpffs", "no bpf file system at "+dir, "mount -t bpf bpf "+dir+" (in Kubernetes: a hostPath of it)")
	}
	return ok("bpffs", dir)
}
