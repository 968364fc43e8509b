package pid1

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// step is one named act of building the root.
type step struct {
	name string
	do   func(*builder) error
}

// builder is what the steps know.
type builder struct {
	wire.Root
	root   int   // the mount that becomes /
	mounts []int // one for each of Mounts
	built
}

// steps are the plan's steps in order. testdata/steps.golden shows them.
func steps(p wire.Plan) []step {
	list := []step{
		{"root", attachRoot},
		{"mounts", attachMounts},
		{"tmpfs", attachTmpfs},
		{"proc", attachProc}, // before the old root goes: the kernel allows a new procfs only beside a visible old one
		{"devpts", attachPTS},
		{"sys", attachSys},
	}
	if p.Chroot {
		list = append(list, step{"chroot", chroot})
	} else {
		list = append(list, step{"pivot_root", pivot})
	}
	return append(list, step{"namespaces", forbidNamespaces}) // last: the kernel counts a mount that is attached nowhere as one
}

// buildRoot makes the job's root file system the root of this process, and of launch where the plan pivots.
func buildRoot(m *wire.Root, files []int) (*built, *wire.Failed) {
	plan, ok := m.Mode.Plan(m.Engine)
	if !ok {
		return nil, wire.Fail("plan", fmt.Errorf("no plan for mode %q with engine %q", m.Mode, m.Engine))
	}
	if len(files) != 1+len(m.Mounts) {
		return nil, wire.Fail("receive", fmt.Errorf("got %d descriptors, want %d", len(files), 1+len(m.Mounts)))
	}
	b := &builder{Root: *m, root: files[0], mounts: files[1:], built: built{memory: memoryMounts{}}}
	for _, s := range steps(plan) {
		if err := s.do(b); err != nil {
			return nil, wire.Fail(s.name, err)
		}
	}
	return &b.built, nil
}

// attachRoot puts the root's mount over the present one. The kernel pivots only to a mount that is attached.
func attachRoot(b *builder) error {
	err := unix.MoveMount(b.root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("move_mount to /: %w", err)
	}
	return nil
}

func attachMounts(b *builder) error {
	for i, target := range b.Mounts {
		if err := b.attach(b.mounts[i], target, unix.O_DIRECTORY); err != nil {
			return err
		}
	}
	return nil
}

// attach puts a detached mount at a path of the new root.
func (b *builder) attach(mount int, target string, flags uint64) error {
	at, err := b.open(target, flags)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.MoveMount(mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount to %s: %w", target, err)
	}
	return nil
}

// open opens a place below the new root.
func (b *builder) open(target string, flags uint64) (int, error) {
	return openBelow(b.root, target, flags)
}

// openBelow opens a place below a directory, or below / itself. The job may have left a symlink there, in the workspace that was
// restored, and a mount that followed it would cover another directory, or leave this one to the job.
func openBelow(root int, target string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | flags, // not O_NOFOLLOW, which would make ENOTDIR of a symlink
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	relative, ok := strings.CutPrefix(target, "/")
	if !ok || relative == "" {
		return -1, fmt.Errorf("mount target %q is not an absolute path below /", target)
	}
	for {
		fd, err := unix.Openat2(root, relative, &how)
		switch err {
		case nil:
			return fd, nil
		case unix.EAGAIN, unix.EINTR: // a rename elsewhere on the node raced with the lookup
		case unix.ELOOP:
			return -1, fmt.Errorf("open %s: %w: a symlink lies on the way, and a mount follows none", target, err)
		default:
			return -1, fmt.Errorf("open %s: %w", target, err)
		}
	}
}

// pivot makes the root the namespace's root and drops everything that was visible before. Processes that have the old
// root, launch among them, are moved along by the kernel.
func pivot(b *builder) error {
	if err := unix.Fchdir(b.root); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root, which now lies on top
		return fmt.Errorf("umount2(old root, MNT_DETACH): %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir: %w", err)
	}
	return nil
}

// chroot is the lesser way: the node's mounts stay in this namespace, out of reach without CAP_SYS_CHROOT.
func chroot(b *builder) error {
	if err := unix.Fchdir(b.root); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir: %w", err)
	}
	return nil
}
