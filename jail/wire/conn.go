package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn carries messages over one end of a socket pair.
//
// A Conn on a non-blocking descriptor waits in the Go poller (the agent has many), one on a blocking descriptor in the
// system call (the roles of tolbooth-jail wait on a locked thread).
type Conn struct {
	file *os.File
	raw  syscall.RawConn
}

// Packet is one message as it came, with the descriptors it carried. The receiver owns those.
type Packet struct {
	Message Message
	Files   []int
	PID     int // of the sender, in the receiver's pid namespace; 0 unless the socket has SO_PASSCRED
}

// Pair makes two connected sockets, both close-on-exec and blocking.
func Pair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	for _, fd := range fds {
		growBuffer(fd)
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// growBuffer lets a whole message through: the kernel refuses a packet larger than the send buffer. Without CAP_NET_ADMIN
// the buffer is what net.core.wmem_max allows, twice 208 KiB by default, which holds every command of MaxArguments.
func growBuffer(fd int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, MaxMessage) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, MaxMessage) // a message too long says so when it is sent
	}
}

// NewConn takes over one end of a pair.
func NewConn(f *os.File) (*Conn, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("open connection: %w", err)
	}
	return &Conn{f, raw}, nil
}

// FD is the descriptor, for options and poll. It stays the Conn's.
func (c *Conn) FD() int {
	fd := -1
	_ = c.raw.Control(func(f uintptr) { fd = int(f) }) // -1 when it is closed
	return fd
}

// Interrupt makes every Send and Recv of a non-blocking Conn fail, those that wait included.
func (c *Conn) Interrupt() error { return c.file.SetDeadline(time.Unix(1, 0)) }

// Close closes the socket; a waiting Recv returns.
func (c *Conn) Close() error { return c.file.Close() }

// Send writes one message with descriptors, which stay the sender's.
func (c *Conn) Send(m Message, files ...int) error {
	b, err := Encode(m)
	if err != nil {
		return err
	}
	if len(files) > MaxFiles {
		return fmt.Errorf("send %T: %d descriptors are over %d", m, len(files), MaxFiles)
	}
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	cerr := c.raw.Write(func(fd uintptr) bool {
		for {
			err = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_NOSIGNAL)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	if cerr != nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("send %T of %d bytes: %w", m, len(b), err)
	}
	return nil
}

// Recv reads one message that carries at most files descriptors; io.EOF: the other end is closed.
func (c *Conn) Recv(files int) (Packet, error) {
	var p Packet
	var err error
	cerr := c.raw.Read(func(fd uintptr) bool {
		p, err = recv(int(fd), files)
		return !errors.Is(err, unix.EAGAIN)
	})
	if cerr != nil {
		return Packet{}, fmt.Errorf("receive message: %w", cerr)
	}
	return p, err
}

func recv(fd, files int) (Packet, error) {
	n, err := size(fd)
	if err != nil {
		return Packet{}, err
	}
	b := make([]byte, n)
	oob := make([]byte, unix.CmsgSpace(4*files)+unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, flags, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return Packet{}, fmt.Errorf("recvmsg: %w", err)
	}
	var p Packet
	err = p.ancillary(oob[:oobn])
	switch {
	case err != nil:
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(p.Files) > files:
		err = errors.New("message carries more than was asked for")
	default:
		p.Message, err = Decode(b[:n])
	}
	if err != nil {
		CloseFiles(p.Files)
		return Packet{}, err
	}
	return p, nil
}

// size waits for a message and returns its length, without taking it.
func size(fd int) (int, error) {
	for {
		n, _, _, _, err := unix.Recvmsg(fd, nil, nil, unix.MSG_PEEK|unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, fmt.Errorf("recvmsg: %w", err)
		case n == 0: // no message is empty
			return 0, io.EOF
		case n > MaxMessage:
			return 0, fmt.Errorf("message of %d bytes is over %d", n, MaxMessage)
		default:
			return n, nil
		}
	}
}

func (p *Packet) ancillary(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("parse control message: %w", err)
	}
	for i := range messages {
		switch messages[i].Header.Type {
		case unix.SCM_RIGHTS:
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return fmt.Errorf("parse descriptors: %w", err)
			}
			p.Files = append(p.Files, fds...)
		case unix.SCM_CREDENTIALS:
			cred, err := unix.ParseUnixCredentials(&messages[i])
			if err != nil {
				return fmt.Errorf("parse credentials: %w", err)
			}
			p.PID = int(cred.Pid)
		}
	}
	return nil
}

// CloseFiles closes received descriptors.
func CloseFiles(files []int) {
	for _, fd := range files {
		unix.Close(fd)
	}
}

// Expect receives a message of one type. A Failed that comes instead is returned as the error.
func Expect[T Message](c *Conn, files int) (T, Packet, error) {
	var none T
	p, err := c.Recv(files)
	if err != nil {
		return none, p, err
	}
	if m, ok := p.Message.(T); ok {
		return m, p, nil
	}
	CloseFiles(p.Files)
	if failed, ok := p.Message.(*Failed); ok {
		return none, Packet{}, failed
	}
	return none, Packet{}, fmt.Errorf("got message %T, want %T", p.Message, none)
}
