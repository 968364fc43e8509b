package probe

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/notify"
)

// Values that x/sys does not have.
const (
	seccompGetNotifSizes = 3
	seccompRetUserNotif  = 0x7fc00000
	newListener          = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
)

// askedNumber is a system call that no kernel has, and askedErrno an answer that no kernel gives to it by itself.
const (
	askedNumber = 0x0fff0000
	askedErrno  = unix.EXDEV
)

// unotifyLayer loads a filter with a listener into a thread that ends with the probe, makes a call there and answers it, as
// launch and the warden do. Without WAIT_KILLABLE_RECV a caller that its own signals interrupt would be asked about again and
// again.
func unotifyLayer(host settings) Layer {
	err := inThread(askListener)
	if err == nil {
		return ok("unotify", "listener with WAIT_KILLABLE_RECV")
	}
	fix := seccompFix(err, host)
	if errors.Is(err, unix.EINVAL) {
		fix = "use kernel 5.19 or newer, which has SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"
	}
	return missing("unotify", err.Error(), fix)
}

func askListener() error {
	var sizes struct{ notification, response, data uint16 }
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, seccompGetNotifSizes, 0, uintptr(unsafe.Pointer(&sizes))); errno != 0 {
		return fmt.Errorf("seccomp (GET_NOTIF_SIZES): %w", errno)
	}
	if sizes.notification != notify.CallSize || sizes.response != notify.AnswerSize {
		return fmt.Errorf("this kernel's notifications have %d and %d bytes, this build knows %d and %d",
			sizes.notification, sizes.response, notify.CallSize, notify.AnswerSize)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl (PR_SET_NO_NEW_PRIVS): %w", err)
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: askedNumber},
		{Code: unix.BPF_RET | unix.BPF_K, K: seccompRetUserNotif},
		{Code: unix.BPF_RET | unix.BPF_K, K: seccompRetAllow},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, seccompSetModeFilter, newListener, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("seccomp (SET_MODE_FILTER, NEW_LISTENER|WAIT_KILLABLE_RECV): %w", errno)
	}
	listener := notify.New(int(fd))
	answered := make(chan error, 1)
	go func() {
		call, err := listener.Receive()
		if err == nil && call.NR != askedNumber {
			err = fmt.Errorf("the listener was asked about call %#x", call.NR)
		}
		if err == nil {
			err = listener.Refuse(call, askedErrno)
		}
		answered <- errors.Join(err, listener.Close()) // closed, it leaves no caller waiting
	}()
	_, _, errno = unix.Syscall(askedNumber, 0, 0, 0)
	if err := <-answered; err != nil {
		return err
	}
	if errno != askedErrno {
		return fmt.Errorf("a call that the listener answers with %v returns %v", askedErrno, errno)
	}
	return nil
}
