package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// loadFilter installs the compiled program, for a warden that traces.
func loadFilter(s *stage) error {
	program, err := cbpf.Decode(s.Filter)
	if err != nil {
		return err
	}
	_, err = install(program, 0)
	return err
}

// loadListened installs the program with a listener, and hands that to the warden. Everything that needs preparing is
// prepared before: from here on this thread makes no calls but these, which the filter must allow.
func loadListened(s *stage) error {
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
	rights := unix.UnixRights(0)
	place := rights[unix.CmsgLen(0):]
	data := unix.Iovec{Base: &message[0], Len: uint64(len(message))}
	header := unix.Msghdr{Iov: &data, Iovlen: 1, Control: &rights[0], Controllen: uint64(len(rights))}
	socket := uintptr(s.conn.FD())

	listener, err := install(program.Notified(), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint32(place, uint32(listener))
	if _, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, socket, uintptr(unsafe.Pointer(&header)), unix.MSG_NOSIGNAL); errno != 0 {
		return call("sendmsg(listener)", errno)
	}
	return nil
}

// install puts a program in force for this thread, the only one that survives execve, and returns its listener if the flags
// ask for one. The kernel closes that descriptor at execve.
func install(p *cbpf.Program, flags uintptr) (listener uintptr, err error) {
	code := make([]unix.SockFilter, len(p.Code))
	for i, in := range p.Code {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.JT, Jf: in.JF, K: in.K}
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	listener, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return 0, call(fmt.Sprintf("seccomp(SET_MODE_FILTER, %#x)", flags), errno)
	}
	return listener, nil
}
