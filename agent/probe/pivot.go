package probe

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pivotLayer swaps the root of a mount namespace of its own, which ends with the thread that made it.
func pivotLayer() Layer {
	if err := inThread(pivot); err != nil {
		return missing("pivot-root", err.Error(), "grant CAP_SYS_ADMIN, without a seccomp or AppArmor profile that refuses mount(2) and pivot_root(2), on a node whose root is no initramfs")
	}
	return ok("pivot-root", "")
}

// pivot covers a directory that every node has, since only a mount that is attached can become the root.
func pivot() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare (CLONE_NEWNS): %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount / (MS_PRIVATE): %w", err)
	}
	if err := unix.Mount("tmpfs", "/usr", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	if err := unix.Chdir("/usr"); err != nil {
		return fmt.Errorf("chdir to the new root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	return nil
}
