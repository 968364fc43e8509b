package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What becomes of extended attributes:
//   - user.*: kept byte for byte. user.overlay.* as well: plain data, since no overlay of ours is mounted with userxattr;
//   - POSIX ACLs: kept, their ids as the jail's;
//   - security.capability: kept. Harmless: trees are mounted nosuid and programs run with no_new_privs;
//   - trusted.overlay.opaque=y: kept as the entry's Opaque;
//   - what overlayfs and the host's security modules keep for themselves: left out;
//   - everything else is refused by name. redirect and metacopy stand for data that lies elsewhere.
const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
	capability = "security.capability"
	opaqueName = "trusted.overlay.opaque"
)

var leftOut = []string{
	"trusted.overlay.origin", "trusted.overlay.impure", "trusted.overlay.nlink", "trusted.overlay.uuid", "trusted.overlay.upper",
	"security.selinux", "security.apparmor", "security.SMACK64", "security.ima", "security.evm",
}

// readXattrs reads the attributes of an open file. path is where they can be asked for: /proc/self/fd/N works for every
// type of file, also for a descriptor that was opened with O_PATH.
func readXattrs(path string, e *Entry, idBase uint32) error {
	names, err := listXattrs(path)
	if err != nil || len(names) == 0 {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(leftOut, name) {
			continue
		}
		value, err := getXattr(path, name)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return err
		}
		if name == opaqueName {
			if string(value) != "y" {
				return fmt.Errorf("%w: %s=%q is not understood", ErrRefused, name, value)
			}
			e.Opaque = true
			continue
		}
		if value, err = shiftXattr(name, value, -int64(idBase)); err != nil {
			return err
		}
		x := Xattr{Name: name, Value: value}
		if err := checkXattr(e.Kind, x); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		e.Xattrs = append(e.Xattrs, x)
	}
	return nil
}

// checkXattr refuses attributes that are never kept.
func checkXattr(kind Kind, x Xattr) error {
	if len(x.Value) > maxXattr || len(x.Name) > maxName || strings.ContainsRune(x.Name, 0) {
		return fmt.Errorf("extended attribute %.80q: too long", x.Name)
	}
	switch {
	case strings.HasPrefix(x.Name, "user.") && len(x.Name) > len("user."):
		if kind == File || kind == Dir {
			return nil
		}
	case x.Name == aclAccess:
		if kind != Symlink {
			return checkACL(x.Value)
		}
	case x.Name == aclDefault:
		if kind == Dir {
			return checkACL(x.Value)
		}
	case x.Name == capability:
		if kind == File {
			return checkCapability(x.Value)
		}
	}
	return fmt.Errorf("extended attribute %.80q on a %v", x.Name, kind)
}

// shiftXattr adds by to the host or jail ids in an attribute's value.
func shiftXattr(name string, value []byte, by int64) ([]byte, error) {
	switch name {
	case aclAccess, aclDefault:
		return shiftACL(value, by)
	case capability:
		return shiftCapability(value, by)
	}
	return value, nil
}

// An ACL attribute is a version (2) and entries of tag, permissions and id; the id counts for named users and groups.
const (
	aclHeader  = 4
	aclEntry   = 8
	aclVersion = 2
	aclUser    = 0x02
	aclGroup   = 0x08
	aclTags    = 0x01 | 0x02 | 0x04 | 0x08 | 0x10 | 0x20
)

func shiftACL(value []byte, by int64) ([]byte, error) {
	if len(value) < aclHeader || (len(value)-aclHeader)%aclEntry != 0 {
		return nil, fmt.Errorf("%w: ACL of %d bytes", ErrRefused, len(value))
	}
	out := bytes.Clone(value)
	for i := aclHeader; i < len(out); i += aclEntry {
		tag := binary.LittleEndian.Uint16(out[i:])
		if tag != aclUser && tag != aclGroup {
			continue
		}
		id, err := shiftID(binary.LittleEndian.Uint32(out[i+4:]), by)
		if err != nil {
			return nil, fmt.Errorf("%w: ACL: %w", ErrRefused, err)
		}
		binary.LittleEndian.PutUint32(out[i+4:], id)
	}
	return out, nil
}

// checkACL checks an ACL with jail ids.
func checkACL(value []byte) error {
	if len(value) < aclHeader || (len(value)-aclHeader)%aclEntry != 0 || binary.LittleEndian.Uint32(value) != aclVersion {
		return errors.New("malformed ACL")
	}
	for i := aclHeader; i < len(value); i += aclEntry {
		tag, id := binary.LittleEndian.Uint16(value[i:]), binary.LittleEndian.Uint32(value[i+4:])
		if tag == 0 || tag&^aclTags != 0 || tag&(tag-1) != 0 || (tag == aclUser || tag == aclGroup) && id > maxID {
			return errors.New("malformed ACL")
		}
	}
	return nil
}

// A capability attribute: magic with revision, 16 bytes of sets, and in revision 3 the id of the user namespace's root.
const (
	capRevision  = 0xff000000
	capRevision2 = 0x02000000
	capRevision3 = 0x03000000
	capSize2     = 20
	capSize3     = 24
)

func shiftCapability(value []byte, by int64) ([]byte, error) {
	if len(value) != capSize3 {
		return value, nil
	}
	out := bytes.Clone(value)
	id, err := shiftID(binary.LittleEndian.Uint32(out[capSize2:]), by)
	if err != nil {
		return nil, fmt.Errorf("%w: file capability: %w", ErrRefused, err)
	}
	binary.LittleEndian.PutUint32(out[capSize2:], id)
	return out, nil
}

func checkCapability(value []byte) error {
	if len(value) < 4 {
		return errors.New("malformed file capability")
	}
	switch rev := binary.LittleEndian.Uint32(value) & capRevision; {
	case rev == capRevision2 && len(value) == capSize2:
		return nil
	case rev == capRevision3 && len(value) == capSize3 && binary.LittleEndian.Uint32(value[capSize2:]) <= maxID:
		return nil
	}
	return errors.New("malformed file capability")
}

// shiftID moves an id between the host's and the jail's numbers; the jail's side must be one of the jail's ids.
func shiftID(id uint32, by int64) (uint32, error) {
	to := int64(id) + by
	jail := to
	if by > 0 {
		jail = int64(id)
	}
	if jail < 0 || jail > maxID || to < 0 {
		return 0, fmt.Errorf("id %d is none of the jail's", id)
	}
	return uint32(to), nil
}

func listXattrs(path string) ([]string, error) {
	buf := make([]byte, 1024)
	for {
		n, err := unix.Listxattr(path, buf)
		if errors.Is(err, unix.ERANGE) && len(buf) < 1<<20 {
			buf = make([]byte, 4*len(buf))
			continue
		}
		if errors.Is(err, unix.ENOTSUP) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listxattr: %w", err)
		}
		if n == 0 {
			return nil, nil
		}
		return strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00"), nil
	}
}

func getXattr(path, name string) ([]byte, error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Getxattr(path, name, buf)
		if errors.Is(err, unix.ERANGE) && len(buf) < maxXattr {
			buf = make([]byte, maxXattr)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("getxattr %.80q: %w", name, err)
		}
		return buf[:n:n], nil
	}
}

func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
