package bpf

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Veth is the node's end of a job's veth pair, and what the job may claim to be on it.
type Veth struct {
	Ifindex int
	Slot    uint32
	Policy  uint32
	Pins    uint32 // Pins.ID; 0: none
	Addr4   netip.Addr
	Addr6   netip.Addr
	JailMAC net.HardwareAddr
	NodeMAC net.HardwareAddr
	Budget  uint64 // bytes that the job may send and receive together; 0: no bound
}

// BindVeth judges a veth's packets by a policy. Calling it again for the same veth replaces the policy at once and the
// programs in place. Precondition: the calling thread is in the network namespace of the veth's node end.
func (e *Egress) BindVeth(v Veth) error {
	switch {
	case v.Ifindex <= 0:
		return fmt.Errorf("bind veth: interface index %d", v.Ifindex)
	case v.Slot >= e.slots:
		return fmt.Errorf("bind veth %d: slot %d, only %d exist", v.Ifindex, v.Slot, e.slots)
	case !v.Addr4.Is4() || !v.Addr6.Is6() || v.Addr6.Is4In6():
		return fmt.Errorf("bind veth %d: needs one address of each family, has %s and %s", v.Ifindex, v.Addr4, v.Addr6)
	case len(v.JailMAC) != 6 || len(v.NodeMAC) != 6:
		return fmt.Errorf("bind veth %d: needs two hardware addresses", v.Ifindex)
	}
	entry := egressVeth{
		Policy: v.Policy, Pins: v.Pins, Slot: v.Slot, Addr4: addrOf(v.Addr4), Addr6: addrOf(v.Addr6),
		JailMac: [6]uint8(v.JailMAC), NodeMac: [6]uint8(v.NodeMAC), Budget: v.Budget,
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.policies[v.Policy] == nil {
		return fmt.Errorf("bind veth %d: unknown policy %d", v.Ifindex, v.Policy)
	}
	if err := e.objects.TbVeths.Put(uint32(v.Ifindex), entry); err != nil {
		return fmt.Errorf("bind veth %d: %w", v.Ifindex, err)
	}
	e.veths[uint32(v.Ifindex)] = true
	if err := e.attach(v.Ifindex, e.objects.TbFromJail, e.objects.TbToJail); err != nil {
		return fmt.Errorf("attach to veth %d by %s: %w", v.Ifindex, e.hook, err)
	}
	return nil
}

// UnbindVeth forgets a veth: while the device still exists every packet on it is dropped. The programs go with the device.
func (e *Egress) UnbindVeth(ifindex int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.veths, uint32(ifindex))
	return ignoreMissing(e.objects.TbVeths.Delete(uint32(ifindex)), "unbind veth")
}

// attachTCX (kernel 6.6) puts the programs first on the device's hooks, replacing older ones of ours.
func attachTCX(ifindex int, fromJail, toJail *ebpf.Program) error {
	for _, h := range []struct {
		attach  ebpf.AttachType
		name    string
		program *ebpf.Program
	}{{ebpf.AttachTCXIngress, "tb_from_jail", fromJail}, {ebpf.AttachTCXEgress, "tb_to_jail", toJail}} {
		old, err := programsAt(ifindex, h.attach, h.name)
		if err != nil {
			return err
		}
		o := link.RawAttachProgramOptions{Target: ifindex, Program: h.program, Attach: h.attach, Anchor: link.Head()}
		if len(old) == 0 {
			if err := link.RawAttachProgram(o); err != nil {
				return err
			}
			continue
		}
		if err := withProgram(old[0], func(p *ebpf.Program) error {
			same, err := sameProgram(p, h.program)
			if err != nil || same {
				return err // the kernel refuses to replace a program by itself
			}
			o.Anchor = link.ReplaceProgram(p)
			return link.RawAttachProgram(o)
		}); err != nil {
			return err
		}
	}
	return nil
}

func sameProgram(a, b *ebpf.Program) (bool, error) {
	first, err := a.Info()
	if err != nil {
		return false, err
	}
	second, err := b.Info()
	if err != nil {
		return false, err
	}
	idA, _ := first.ID()
	idB, _ := second.ID()
	return idA == idB && idA != 0, nil
}

// attachClsact works on every kernel. The fixed handle and priority make it a replacement when repeated.
func attachClsact(ifindex int, fromJail, toJail *ebpf.Program) error {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscReplace(qdisc); err != nil {
		return fmt.Errorf("add clsact: %w", err)
	}
	for _, h := range []struct {
		parent  uint32
		name    string
		program *ebpf.Program
	}{{netlink.HANDLE_MIN_INGRESS, "tb_from_jail", fromJail}, {netlink.HANDLE_MIN_EGRESS, "tb_to_jail", toJail}} {
		filter := &netlink.BpfFilter{
			FilterAttrs:  netlink.FilterAttrs{LinkIndex: ifindex, Parent: h.parent, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL},
			Fd:           h.program.FD(),
			Name:         h.name,
			DirectAction: true,
		}
		if err := netlink.FilterReplace(filter); err != nil {
			return fmt.Errorf("add filter %s: %w", h.name, err)
		}
	}
	return nil
}
