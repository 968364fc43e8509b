package jail

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Launcher starts jails from one sealed copy of tolbooth-jail.
type Launcher struct {
	binary  *os.File       // read-only: with a writable descriptor open, execve would say ETXTBSY
	wardens sync.WaitGroup // not yet reaped
}

// NewLauncher copies the binary at path into memory and seals it: what runs as root from now on is what was there at start,
// whatever happens to the file, and a jail has no way to change it (CVE-2019-5736).
func NewLauncher(path string) (*Launcher, error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open tolbooth-jail: %w", err)
	}
	defer src.Close()
	copied, err := executableMemory()
	if err != nil {
		return nil, err
	}
	defer copied.Close()
	if _, err := io.Copy(copied, src); err != nil {
		return nil, fmt.Errorf("copy %s to memory: %w", path, err)
	}
	// Not readable for others: a process that runs from it is then not dumpable from its first instruction.
	if err := copied.Chmod(0o711); err != nil {
		return nil, fmt.Errorf("chmod of the copy: %w", err)
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(copied.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("fcntl(F_ADD_SEALS): %w", err)
	}
	binary, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(copied.Fd())))
	if err != nil {
		return nil, fmt.Errorf("reopen the sealed copy: %w", err)
	}
	return &Launcher{binary: binary}, nil
}

// executableMemory makes a memfd. Since kernel 6.3 it must say that it will be executed; before, the flag is unknown.
func executableMemory() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("tolbooth-jail", flags|unix.MFD_EXEC)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate("tolbooth-jail", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return os.NewFile(uintptr(fd), "tolbooth-jail"), nil
}

// Wait returns when every warden that this Launcher started has ended and is reaped.
func (l *Launcher) Wait() { l.wardens.Wait() }

// Close drops the copy. Jails that run are not affected.
func (l *Launcher) Close() error { return l.binary.Close() }
