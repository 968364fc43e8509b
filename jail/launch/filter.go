package launch

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// readFilter decodes the compiled program, for a warden that traces.
func readFilter(s *stage) error {
	program, err := cbpf.Decode(s.Filter)
	if err != nil {
		return err
	}
	s.last.setFilter(program, 0)
	return nil
}

// readListened decodes the program for a warden that listens, and prepares the message by which it gets the listener.
func readListened(s *stage) error {
	program, err := cbpf.Decode(s.Filter)
	if err != nil {
		return err
	}
	if answer, _, err := program.Run(&cbpf.Call{NR: unix.SYS_SENDMSG, Arch: cbpf.Native}); err != nil || answer != cbpf.Allow {
		return errors.Join(fmt.Errorf("the policy denies sendmsg, by which launch hands over the filter's listener; "+
			"allow it, or set the node's key explainer to %s", wire.Ptrace), err)
	}
	message, err := wire.Encode(&wire.Listener{})
	if err != nil {
		return err
	}
	s.last.setFilter(program.Notified(), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	rights := unix.UnixRights(0) // the number is not known yet
	s.last.place = rights[unix.CmsgLen(0):]
	data := unix.Iovec{Base: &message[0], Len: uint64(len(message))}
	s.last.handover = &unix.Msghdr{Iov: &data, Iovlen: 1, Control: &rights[0], Controllen: uint64(len(rights))}
	s.last.socket = s.conn.FD()
	return nil
}

func (l *last) setFilter(p *cbpf.Program, flags uintptr) {
	code := make([]unix.SockFilter, len(p.Code))
	for i, in := range p.Code {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.JT, Jf: in.JF, K: in.K}
	}
	l.filter, l.flags = &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}, flags
}
