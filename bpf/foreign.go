package bpf

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ForeignPrograms names the BPF programs on a device's packet hooks that are not ours, each with its hook, such as "clsact
// ingress: cil_from_netdev". They see what jobs send after our verdict, and may drop or redirect it. The device is one of the
// calling thread's network namespace.
func ForeignPrograms(ifindex int) ([]string, error) {
	device, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return nil, fmt.Errorf("look at device %d: %w", ifindex, err)
	}
	var found []string
	if xdp := device.Attrs().Xdp; xdp != nil && xdp.Attached {
		name, err := programName(ebpf.ProgramID(xdp.ProgId))
		if err != nil {
			return nil, err
		}
		if name != "" {
			found = append(found, "xdp: "+name)
		}
	}
	for _, h := range []struct {
		name   string
		parent uint32
		attach ebpf.AttachType
	}{{"ingress", netlink.HANDLE_MIN_INGRESS, ebpf.AttachTCXIngress}, {"egress", netlink.HANDLE_MIN_EGRESS, ebpf.AttachTCXEgress}} {
		filters, err := netlink.FilterList(device, h.parent)
		if err != nil {
			return nil, fmt.Errorf("list %s filters of %s: %w", h.name, device.Attrs().Name, err)
		}
		for _, f := range filters {
			if b, ok := f.(*netlink.BpfFilter); ok {
				found = append(found, "clsact "+h.name+": "+b.Name)
			}
		}
		on, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: h.attach})
		if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
			continue // a kernel below 6.6 knows no tcx, and calls the question invalid
		}
		if err != nil {
			return nil, fmt.Errorf("query tcx %s programs of %s: %w", h.name, device.Attrs().Name, err)
		}
		for _, p := range on.Programs {
			name, err := programName(p.ID)
			if err != nil {
				return nil, err
			}
			if name != "" {
				found = append(found, "tcx "+h.name+": "+name)
			}
		}
	}
	return found, nil
}

// programName is empty for a program that was detached in the meantime.
func programName(id ebpf.ProgramID) (string, error) {
	program, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open program %d: %w", id, err)
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return "", fmt.Errorf("inspect program %d: %w", id, err)
	}
	return info.Name, nil
}
