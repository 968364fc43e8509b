package launch

import "golang.org/x/sys/unix"

// enterRoot makes the job's root the root directory. Getting out again takes CAP_SYS_CHROOT, which a later step drops.
func enterRoot(s *stage) error {
	if err := unix.Fchdir(s.root); err != nil {
		return call("fchdir", err)
	}
	if err := unix.Chroot("."); err != nil {
		return call("chroot", err)
	}
	return call("chdir /", unix.Chdir("/"))
}

// setStdio puts the job's streams at 0, 1 and 2. Without a stdin it is the jail's own /dev/null, which can be opened again
// through /dev/stdin; the node's could not.
func setStdio(s *stage) error {
	if s.stdio[0] < 0 {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return call("open /dev/null", err)
		}
		s.stdio[0] = fd
	}
	for to, from := range s.stdio {
		if err := unix.Dup3(from, to, 0); err != nil {
			return call("dup3", err)
		}
	}
	return nil
}

// enterCwd changes to the job's directory and makes sure that it lies below its root: a path through a magic link of
// /proc could lead elsewhere (CVE-2024-21626), and the kernel then reports it as unreachable.
func enterCwd(s *stage) error {
	if err := unix.Chdir(s.Cwd); err != nil {
		return call("chdir "+s.Cwd, err)
	}
	var b [unix.PathMax]byte
	n, err := unix.Getcwd(b[:])
	if err != nil {
		return call("getcwd", err)
	}
	if n == 0 || b[0] != '/' {
		return call("chdir "+s.Cwd+": it lies outside the jail's root", unix.EXDEV)
	}
	return nil
}
