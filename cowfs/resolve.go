package cowfs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// insideTree are the rules of every walk into a job's tree: links mean what they mean in the jail and cannot leave it; no
// mount that the jail put below its root is entered; no magic link is followed.
const insideTree = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS

const maxPath = 4095

// cleanPath checks a path of a request and makes it relative to the tree's root. A relative one is relative to
// /workspace.
func cleanPath(p string) (string, error) {
	switch {
	case p == "":
		return "", fmt.Errorf("%w: it is empty", ErrPath)
	case len(p) > maxPath-len("workspace/"):
		return "", fmt.Errorf("%w: %s is longer than %d bytes", ErrPath, quote(p), maxPath)
	case strings.ContainsRune(p, 0):
		return "", fmt.Errorf("%w: %s contains a NUL byte", ErrPath, quote(p))
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return "", fmt.Errorf(`%w: %s contains ".."`, ErrPath, quote(p))
		}
		if len(part) > 255 {
			return "", fmt.Errorf("%w: %s has a name longer than 255 bytes", ErrPath, quote(p))
		}
	}
	if !path.IsAbs(p) {
		p = "/workspace/" + p
	}
	return strings.TrimPrefix(path.Clean(p), "/"), nil
}

// open opens the path rel of the tree. rel "" is the root.
func (t *Tree) open(rel string, flags int) (*os.File, error) {
	if t.root == nil {
		return nil, fmt.Errorf("open /%s: tree is not mounted", rel)
	}
	if rel == "" {
		rel = "."
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: insideTree}
	for range 8 {
		fd, err := unix.Openat2(int(t.root.Fd()), rel, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), rel), nil
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
			continue // a rename elsewhere in the tree while the kernel was walking
		}
		return nil, openError(rel, err)
	}
	return nil, fmt.Errorf("openat2 %s: the tree kept changing: %w", quote("/"+rel), unix.EAGAIN)
}

// openError says in the package's words why a path of a tree could not be opened.
func openError(rel string, err error) error {
	where := quote("/" + rel)
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s: %w: %w", where, ErrNotFound, err)
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%w: %s leaves the job's own tree: %w", ErrPath, where, err)
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("%w: %s leads through too many or magic links: %w", ErrPath, where, err)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%w: %s leads through something that is no directory: %w", ErrPath, where, err)
	case errors.Is(err, unix.ENAMETOOLONG):
		return fmt.Errorf("%w: %s: %w", ErrPath, where, err)
	}
	return fmt.Errorf("openat2 %s: %w", where, err)
}

// typeName names the type of a file in an error.
func typeName(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFIFO:
		return "a fifo"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR:
		return "a character device"
	case unix.S_IFBLK:
		return "a block device"
	}
	return fmt.Sprintf("of type %#o", mode&unix.S_IFMT)
}
