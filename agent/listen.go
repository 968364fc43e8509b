package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// maxConnections bounds the open connections of one listener.
const maxConnections = 4096

// socketFile is the agent's unix socket in the file system, remembered by its inode: the name may come to belong to
// another agent.
type socketFile struct {
	path string
	dev  uint64
	ino  uint64
}

// listenUnix binds the socket, mode 0660. A socket that nobody answers on is replaced, one that answers is an error. The
// directory is locked meanwhile, so that two agents that start at once do not take each other's socket for a stale one.
func listenUnix(path string, gid int) (*net.UnixListener, socketFile, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, socketFile{}, fmt.Errorf("make the socket's directory: %w", err)
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, socketFile{}, fmt.Errorf("open the socket's directory: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, socketFile{}, fmt.Errorf("flock the socket's directory: %w", err)
	}
	if err := clearStale(path); err != nil {
		return nil, socketFile{}, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, socketFile{}, fmt.Errorf("listen on the socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	file, err := claimSocket(path, gid)
	if err != nil {
		return nil, socketFile{}, errors.Join(err, l.Close(), os.Remove(path))
	}
	return l, file, nil
}

// clearStale removes what an agent that was killed left at the socket's path.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is no socket; remove it, or choose another with socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("another agent answers on %s", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("the socket %s exists, and whether an agent answers there cannot be told: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove a stale socket: %w", err)
	}
	return nil
}

// claimSocket gives the socket its group and mode. Until then only the agent's user can connect, and nobody is served.
func claimSocket(path string, gid int) (socketFile, error) {
	if gid >= 0 {
		if err := os.Lchown(path, -1, gid); err != nil {
			return socketFile{}, fmt.Errorf("chown the socket: %w", err)
		}
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return socketFile{}, fmt.Errorf("chmod the socket: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return socketFile{}, fmt.Errorf("lstat the socket: %w", err)
	}
	return socketFile{path: path, dev: uint64(st.Dev), ino: st.Ino}, nil
}

// Remove unlinks the socket when it is still this agent's.
func (f socketFile) Remove() error {
	var st unix.Stat_t
	if err := unix.Lstat(f.path, &st); err != nil || uint64(st.Dev) != f.dev || st.Ino != f.ino {
		return nil
	}
	if err := os.Remove(f.path); err != nil {
		return fmt.Errorf("remove the socket: %w", err)
	}
	return nil
}

// listenTCP binds the TCP listener, with TLS when a certificate is configured. Client certificates are verified when they
// are given and demanded where authority is: /health stays open to probes, which have none.
func listenTCP(cfg *Config) (net.Listener, error) {
	var config *tls.Config
	if cfg.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("load tls_cert and tls_key: %w", err)
		}
		config = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	}
	if cfg.TLSClientCA != "" {
		pem, err := os.ReadFile(cfg.TLSClientCA)
		if err != nil {
			return nil, fmt.Errorf("read tls_client_ca: %w", err)
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls_client_ca %s holds no certificate", cfg.TLSClientCA)
		}
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	l = newLimitListener(l, maxConnections)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}
