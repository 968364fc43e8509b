package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// bpfAllowMulti is BPF_F_ALLOW_MULTI: other programs may sit on the same control group; all must agree.
const bpfAllowMulti = 2

type socketHook struct {
	attach  ebpf.AttachType
	name    string
	program *ebpf.Program
}

func (e *Egress) socketHooks() []socketHook {
	return []socketHook{
		{ebpf.AttachCGroupInet4Connect, "tb_connect4", e.objects.TbConnect4},
		{ebpf.AttachCGroupInet6Connect, "tb_connect6", e.objects.TbConnect6},
		{ebpf.AttachCGroupUDP4Sendmsg, "tb_sendmsg4", e.objects.TbSendmsg4},
		{ebpf.AttachCGroupUDP6Sendmsg, "tb_sendmsg6", e.objects.TbSendmsg6},
	}
}

// attachSockets leaves exactly one program of ours on each hook: an older one is replaced in place, so that there is no
// moment without one.
func (e *Egress) attachSockets() error {
	for _, h := range e.socketHooks() {
		old, err := e.attachedPrograms(h.attach, h.name)
		if err != nil {
			return err
		}
		o := link.RawAttachProgramOptions{
			Target: int(e.cgroup.Fd()), Program: h.program, Attach: h.attach, Flags: bpfAllowMulti,
		}
		if len(old) > 0 {
			if err := withProgram(old[0], func(p *ebpf.Program) error {
				o.Anchor = link.ReplaceProgram(p)
				return link.RawAttachProgram(o)
			}); err != nil {
				return fmt.Errorf("replace %s: %w", h.name, err)
			}
			old = old[1:]
		} else if err := link.RawAttachProgram(o); err != nil {
			return fmt.Errorf("attach %s to the control group: %w", h.name, err)
		}
		if err := e.detachSocket(h.attach, old); err != nil {
			return err
		}
	}
	return nil
}

func (e *Egress) detachSocket(hook ebpf.AttachType, ids []ebpf.ProgramID) error {
	for _, id := range ids {
		err := withProgram(id, func(p *ebpf.Program) error {
			return link.RawDetachProgram(link.RawDetachProgramOptions{Target: int(e.cgroup.Fd()), Program: p, Attach: hook})
		})
		if err != nil {
			return fmt.Errorf("detach program %d from the control group: %w", id, err)
		}
	}
	return nil
}

func withProgram(id ebpf.ProgramID, f func(*ebpf.Program) error) error {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return err
	}
	defer p.Close()
	return f(p)
}

// Detach takes the socket hooks off the control group. Only for when no job is left: without them nothing is refused
// there. Programs on veths go with their device.
func (e *Egress) Detach() error {
	var errs []error
	for _, h := range e.socketHooks() {
		ids, err := e.attachedPrograms(h.attach, h.name)
		errs = append(errs, err, e.detachSocket(h.attach, ids))
	}
	return errors.Join(errs...)
}
