package probe

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// egressLayers load the very programs that guard jobs, put them on a control group that nobody is in and on a veth that
// leads nowhere, and take them off again. The calling thread is in the veth's network namespace.
func egressLayers(index int) []Layer {
	both := func(why, fix string) []Layer {
		return []Layer{missing("connect-hooks", why, fix), missing("ebpf-egress", why, fix)}
	}
	dir, err := makeGroup()
	if err != nil {
		return both(err.Error(), groupFix)
	}
	e, err := bpf.Load(bpf.Options{Cgroup: dir, Slots: 1, MaxRules: 1})
	if err != nil {
		return both(errors.Join(err, os.Remove(dir)).Error(), bpfFix(err))
	}
	layers := []Layer{connectHooks(), packetLayer(e, index)}
	if err := errors.Join(e.Detach(), e.Close(), os.Remove(dir)); err != nil {
		return both(err.Error(), bpfFix(err))
	}
	return layers
}

// connectHooks are in place once the programs are loaded.
func connectHooks() Layer { return ok("connect-hooks", "a refused connect answers EPERM at once") }

// packetHooks are in place by that hook.
func packetHooks(hook string) Layer { return ok("ebpf-egress", "by "+hook+" on each veth") }

func packetLayer(e *bpf.Egress, index int) Layer {
	if index == 0 {
		return missing("ebpf-egress", "no veth to attach a program to", "see veth")
	}
	if err := bind(e, index); err != nil {
		return missing("ebpf-egress", err.Error(), bpfFix(err))
	}
	return packetHooks(string(e.Hook()))
}

func bind(e *bpf.Egress, index int) error {
	policy, release, err := e.SetPolicy(bpf.Policy{Mode: bpf.ModeNone})
	if err != nil {
		return err
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	err = e.BindVeth(bpf.Veth{
		Ifindex: index, Policy: policy, JailMAC: mac, NodeMAC: mac,
		Addr4: netip.AddrFrom4([4]byte{198, 19, 0, 1}), Addr6: netip.MustParseAddr("fd74:6f6c:6c62::1"),
	})
	return errors.Join(err, e.UnbindVeth(index), release())
}

func bpfFix(err error) string {
	if errors.Is(err, syscall.EPERM) {
		return "grant CAP_SYS_ADMIN (or CAP_BPF with CAP_NET_ADMIN), without a seccomp profile that refuses bpf(2)"
	}
	return "use kernel 5.15 or newer with CONFIG_CGROUP_BPF and CONFIG_NET_CLS_BPF"
}
