package pid1

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

const (
	// userNamespaces is how many namespaces of each kind a job may have that is allowed to make them: enough for a sandbox
	// that a program brings along, too few to fill the node's memory.
	userNamespaces = 64

	// scratchNamespaces are those that the kernel counts while a mount is attached nowhere.
	scratchNamespaces = 4
)

// built are the parts of the root that can be changed until the program starts.
type built struct {
	memory     memoryMounts
	namespaces namespaceLimits
	cpus       cpuView
}

// change does what the warden asks. Launch waits for its end; when it fails, nothing is ever started.
func (r *built) change(m *wire.Resize) *wire.Failed {
	if err := r.memory.resize(m.Tmpfs); err != nil {
		return wire.Fail("tmpfs", err)
	}
	if len(m.Shown) > 0 {
		if err := r.cpus.show(m.Shown); err != nil {
			return wire.Fail("sys", err)
		}
	}
	if err := r.forbidExecBelow(m.NoExec); err != nil {
		return wire.Fail("noexec", err)
	}
	if m.UserNS {
		if err := r.namespaces.set(userNamespaces); err != nil {
			return wire.Fail("namespaces", fmt.Errorf("allow namespaces: %w", err))
		}
	}
	return nil
}

func (r *built) forbidExecBelow(dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	if err := r.namespaces.set(scratchNamespaces); err != nil {
		return err
	}
	for _, mount := range r.memory { // all are the job's, those below another of dirs too
		if err := setAttributes(mount, unix.MOUNT_ATTR_NOEXEC, 0); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := forbidExec(dir); err != nil {
			return err
		}
	}
	return r.namespaces.set(0)
}
