package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// peer is who is at the other end of a connection: a process by its credentials, which the kernel vouches for, or an
// address.
type peer struct {
	unix    bool
	uid     uint32
	gid     uint32
	pid     int32
	address string
	refused string // why a process may not use the socket; empty: it may
}

// LogValue keeps a log line short.
func (p peer) LogValue() slog.Value { return slog.StringValue(p.String()) }

func (p peer) String() string {
	if !p.unix {
		return p.address
	}
	return fmt.Sprintf("uid=%d gid=%d pid=%d", p.uid, p.gid, p.pid)
}

type peerKey struct{}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// withPeer finds out who connected. Root, the agent's own user and members of the socket's group may use the socket; the
// file's mode says the same, and this holds also when someone changed it or passed a descriptor on.
func (s *Server) withPeer(ctx context.Context, c net.Conn) context.Context {
	p := peer{address: c.RemoteAddr().String()}
	if limited, ok := c.(*limitedConn); ok {
		c = limited.Conn
	}
	if u, ok := c.(*net.UnixConn); ok {
		p = s.credentials(u)
	}
	return context.WithValue(ctx, peerKey{}, p)
}

func (s *Server) credentials(c *net.UnixConn) peer {
	p := peer{unix: true}
	raw, err := c.SyscallConn()
	if err != nil {
		p.refused = "its credentials cannot be read: " + err.Error()
		return p
	}
	var cred *unix.Ucred
	var groups []uint32
	var credErr, groupErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		groups, groupErr = peerGroups(int(fd))
	}); err != nil {
		credErr = err
	}
	if credErr != nil {
		p.refused = "getsockopt(SO_PEERCRED): " + credErr.Error()
		return p
	}
	p.uid, p.gid, p.pid = cred.Uid, cred.Gid, cred.Pid
	switch {
	case p.uid == 0, p.uid == uint32(os.Geteuid()):
	case s.socketGID >= 0 && p.gid == uint32(s.socketGID):
	case s.socketGID >= 0 && groupErr == nil && slices.Contains(groups, uint32(s.socketGID)):
	case s.socketGID >= 0 && groupErr != nil:
		p.refused = "getsockopt(SO_PEERGROUPS): " + groupErr.Error()
	default:
		p.refused = "it is neither root nor the agent's user nor in the socket's group"
	}
	return p
}

// lookupGroup reads a group's number, from its name or from digits. It reads the file itself: the C library's lookup could
// ask services over the network, and blocks.
func lookupGroup(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(n), nil
	}
	data, err := os.ReadFile("/etc/group")
	if err != nil {
		return 0, fmt.Errorf("look up group %s: %w", name, err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) >= 3 && fields[0] == name {
			n, err := strconv.ParseUint(fields[2], 10, 31)
			if err != nil {
				return 0, fmt.Errorf("look up group %s: %w", name, err)
			}
			return int(n), nil
		}
	}
	return 0, fmt.Errorf("there is no group %q in /etc/group; give its number", name)
}
