package netns

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestForeignProgramsOnTheUplinkAreReported: the node's uplink carries somebody else's program, of either kind. Jobs work all the
// same, and the node says that it is there, by name.
func TestForeignProgramsOnTheUplinkAreReported(t *testing.T) {
	attach := map[bpf.Hook]func(t *testing.T, device netlink.Link, p *ebpf.Program){
		bpf.HookTCX: func(t *testing.T, device netlink.Link, p *ebpf.Program) {
			l := must(link.AttachTCX(link.TCXOptions{Interface: device.Attrs().Index, Program: p, Attach: ebpf.AttachTCXIngress}))(t)
			t.Cleanup(func() { l.Close() })
		},
		bpf.HookClsact: func(t *testing.T, device netlink.Link, p *ebpf.Program) {
			index := device.Attrs().Index
			check(t, netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
				LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
			}}))
			check(t, netlink.FilterAdd(&netlink.BpfFilter{
				FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL},
				Fd:          p.FD(), Name: "somebodys", DirectAction: true,
			}))
		},
	}
	eachHook(t, func(t *testing.T, hook bpf.Hook) {
		w := newWorld(t, hook)
		uplinks := must(w.manager.uplinks())(t)
		if len(uplinks) == 0 {
			t.Fatal("the node has no uplink")
		}
		if problems := must(w.manager.foreignPrograms(uplinks))(t); len(problems) != 0 {
			t.Errorf("before there are any: %+v", problems)
		}
		program := must(ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "somebodys", Type: ebpf.SchedCLS, License: "Apache-2.0",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
		}))(t)
		defer program.Close()
		attach[hook](t, uplinks[0], program)
		problems := must(w.manager.foreignPrograms(uplinks))(t)
		if len(problems) != 1 || !strings.Contains(problems[0].Why, string(hook)+" ingress: somebodys") || !strings.Contains(problems[0].What, uplinks[0].Attrs().Name) {
			t.Errorf("%+v", problems)
		}
		j := w.newJail("allow", []string{allowed4}, nil)
		if got := j.dial("tcp", allowed4+":443", false); got.Errno != 0 {
			t.Errorf("an allowed connection beside it: %+v", got)
		}
	})
}

// TestNoUplink: a node without a default route has none, and that is no error.
func TestNoUplink(t *testing.T) {
	hosttest.Netns(t, func() {
		m := open(t, Options{Instance: "7e57"})
		if uplinks := must(m.uplinks())(t); len(uplinks) != 0 || smallestMTU(uplinks) != 1500 {
			t.Errorf("%+v", uplinks)
		}
	})
}
