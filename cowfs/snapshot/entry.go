package snapshot

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// Kind is the type of an entry.
type Kind uint8

// The kinds. The numbers are part of the format.
const (
	Dir      Kind = 1
	File     Kind = 2
	Symlink  Kind = 3
	Fifo     Kind = 4
	Socket   Kind = 5 // the name only; nobody listens on it any more
	Whiteout Kind = 6 // the lower layer's entry of this name is deleted
	Hardlink Kind = 7 // another name of the file Target, an earlier entry
	More     Kind = 8 // further extents of the file before it
)

func (k Kind) String() string {
	names := [...]string{"0", "directory", "file", "symbolic link", "fifo", "socket", "whiteout", "hard link", "continuation"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// Hash is a BLAKE3-256 of plaintext.
type Hash [32]byte

// PackID names a pack: random, so that no writer ever overwrites what another one refers to.
type PackID [16]byte

func (h Hash) String() string   { return hex.EncodeToString(h[:]) }
func (p PackID) String() string { return hex.EncodeToString(p[:]) }

// Segment is where a run of plaintext lies, and its hash.
type Segment struct {
	ID     Hash
	Pack   PackID
	Offset uint32 // in the pack
	Packed uint32 // bytes in the pack; equal to Size: not compressed
	Size   uint32 // bytes of plaintext
}

// Extent is a run of data in a file. What no extent covers is a hole.
type Extent struct {
	Offset  int64 // in the file
	Length  int64
	Segment *Segment
	Start   uint32 // of the data in the segment
}

// Xattr is an extended attribute as it is kept: ids in it are the jail's.
type Xattr struct {
	Name  string
	Value []byte
}

// Entry is one file of a tree.
type Entry struct {
	Path      string // relative, "" for the root; any bytes
	Kind      Kind
	Mode      uint32 // permissions with set-id and sticky bits
	UID, GID  uint32 // jail ids
	MtimeSec  int64
	MtimeNsec uint32
	Opaque    bool   // Dir: nothing of the lower layer shows through
	Target    string // of Symlink and Hardlink
	Size      int64  // of File
	Extents   []Extent
	Hash      *Hash // of a small file's content, by which it is found again
	Xattrs    []Xattr
}

// Bounds of what is kept. A tree beyond them is refused by name.
const (
	maxName     = 255
	maxPath     = 1 << 16
	maxDepth    = 2048
	maxTarget   = 4096
	maxXattrs   = 256
	maxXattr    = 1 << 16
	maxFileSize = 1 << 60
	maxID       = 1<<16 - 1
)

// check refuses an entry that no Writer makes. Order among entries is checked by order.
func (e *Entry) check() error {
	bad := func(why string, args ...any) error {
		return fmt.Errorf("%w: entry %s (%v): %s", ErrCorrupt, fdwalk.Quote(e.Path), e.Kind, fmt.Sprintf(why, args...))
	}
	if err := checkPath(e.Path); err != nil {
		return bad("%v", err)
	}
	if e.Path == "" && e.Kind != Dir {
		return bad("the root is no directory")
	}
	switch {
	case e.Kind < Dir || e.Kind > More:
		return bad("unknown kind")
	case e.Mode > 0o7777:
		return bad("mode %o", e.Mode)
	case e.UID > maxID || e.GID > maxID:
		return bad("owner %d:%d is outside of the jail's ids", e.UID, e.GID)
	case e.MtimeNsec >= 1e9:
		return bad("%d nanoseconds", e.MtimeNsec)
	case e.Opaque && e.Kind != Dir:
		return bad("opaque, but no directory")
	case len(e.Xattrs) > maxXattrs:
		return bad("%d extended attributes", len(e.Xattrs))
	case (e.Target != "") != (e.Kind == Symlink || e.Kind == Hardlink):
		return bad("target")
	case e.Kind == Symlink && (len(e.Target) >= maxTarget || strings.ContainsRune(e.Target, 0)):
		return bad("target")
	case e.Kind != File && (e.Size != 0 || e.Hash != nil) || e.Kind != File && e.Kind != More && len(e.Extents) != 0:
		return bad("data, but no file")
	case e.Size < 0 || e.Size > maxFileSize:
		return bad("size %d", e.Size)
	}
	if e.Kind == Hardlink {
		if err := checkPath(e.Target); err != nil {
			return bad("target: %v", err)
		}
	}
	for _, x := range e.Xattrs {
		if err := checkXattr(e.Kind, x); err != nil {
			return bad("%v", err)
		}
	}
	return nil
}

func checkPath(p string) error {
	if p == "" {
		return nil
	}
	if len(p) > maxPath {
		return fmt.Errorf("path of %d bytes", len(p))
	}
	depth := 0
	for name := range strings.SplitSeq(p, "/") {
		depth++
		if name == "" || name == "." || name == ".." || len(name) > maxName || strings.ContainsRune(name, 0) {
			return fmt.Errorf("path with the component %s", fdwalk.Quote(name))
		}
	}
	if depth > maxDepth {
		return fmt.Errorf("path of %d components", depth)
	}
	return nil
}

// order checks that entries come as a walk makes them: the root first, every directory before what it holds, names in
// the order of their bytes, none twice. With checkPath it makes every path lead through directories of the same tree.
type order struct {
	started bool
	last    string
	file    *Entry   // the last entry, when More may follow
	dirs    []string // names from the root to the directory that is open
}

func (o *order) next(e *Entry) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: entry %s: %s", ErrCorrupt, fdwalk.Quote(e.Path), why)
	}
	if !o.started {
		if e.Path != "" {
			return bad("the root is missing")
		}
		o.started = true
		return nil
	}
	if e.Kind == More {
		if o.file == nil || o.file.Path != e.Path {
			return bad("continues no file")
		}
		return nil
	}
	if !pathLess(o.last, e.Path) {
		return bad("out of order, or twice")
	}
	parts := strings.Split(e.Path, "/")
	up := len(parts) - 1
	if up > len(o.dirs) {
		return bad("its directory is missing")
	}
	for i := range up {
		if o.dirs[i] != parts[i] {
			return bad("its directory is missing")
		}
	}
	o.dirs = o.dirs[:up]
	switch e.Kind {
	case Dir:
		o.dirs = append(o.dirs, parts[up])
	case Hardlink:
		if !pathLess(e.Target, e.Path) {
			return bad("hard link to a later entry")
		}
	}
	o.last, o.file = e.Path, nil
	if e.Kind == File {
		o.file = e
	}
	return nil
}

// pathLess compares component by component: the order of a walk that visits names in the order of their bytes.
func pathLess(a, b string) bool {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	switch {
	case i == len(b):
		return false
	case i == len(a):
		return true
	case a[i] == '/':
		return true
	case b[i] == '/':
		return false
	}
	return a[i] < b[i]
}
