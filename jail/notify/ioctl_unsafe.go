package notify

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The structures of linux/seccomp.h. Their sizes are part of the ioctl numbers.
type (
	notification struct {
		id    uint64
		pid   uint32
		flags uint32
		data  struct {
			nr   int32
			arch uint32
			ip   uint64
			args [6]uint64
		}
	}
	response struct {
		id    uint64
		val   int64
		err   int32
		flags uint32
	}
	addition struct {
		id       uint64
		flags    uint32
		source   uint32
		target   uint32
		newFlags uint32
	}
)

// Sizes that a kernel must have for this package to talk to it (SECCOMP_GET_NOTIF_SIZES).
const (
	CallSize   = uint16(unsafe.Sizeof(notification{}))
	AnswerSize = uint16(unsafe.Sizeof(response{}))
)

// Requests that x/sys lacks (asm-generic/ioctl.h: direction, size, type '!', number).
const (
	idValid     = 0x40082102
	addFD       = 0x40182103
	setListener = 0x40082104
)

func receive(fd int) (n notification, err error) {
	err = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) // which must be zeros
	return n, err
}

func stillValid(fd int, id uint64) error { return ioctl(fd, idValid, unsafe.Pointer(&id)) }

func send(fd int, r *response) error {
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

func add(fd int, a *addition) error { return ioctl(fd, addFD, unsafe.Pointer(a)) }

func setFlags(fd int, flags uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setListener, flags)
	if errno != 0 {
		return errno
	}
	return nil
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
