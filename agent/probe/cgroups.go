package probe

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
)

// groups are the control groups of this machine, and what they amount to.
type groups struct {
	cgroup.Support
	layer Layer
}

// cgroupLayer tells whether limits can be set: memory, pids and cpu, wherever they sit.
func cgroupLayer() groups {
	const fix = "give the agent a writable cgroup file system: root, and in Kubernetes a privileged container or a writable hostPath mount of /sys/fs/cgroup"
	support, err := cgroup.Probe()
	if err != nil {
		return groups{support, missing("cgroup", err.Error(), fix)}
	}
	if lack := support.Missing(); len(lack) > 0 {
		return groups{support, missing("cgroup", strings.Join(lack, "; "), "delegate the controllers memory, pids and cpu to the agent's group (systemd: Delegate=yes)")}
	}
	found := "memory, pids and cpu on v2"
	if support.Version != "v2" {
		found = "memory, pids and cpu on v1; kill, freeze and membership on v2"
	}
	return groups{support, ok("cgroup", found)}
}

// birthLayer tries a child that is born in a v2 group.
func birthLayer() Layer {
	const name = "clone-into-cgroup"
	dir, err := makeGroup()
	if err != nil {
		return missing(name, err.Error(), groupFix)
	}
	err = bearInto(dir)
	if removed := os.Remove(dir); removed != nil {
		return missing(name, removed.Error(), groupFix)
	}
	if err != nil {
		return missing(name, err.Error(), "use kernel 5.7 or newer, without a seccomp profile that refuses clone3")
	}
	return ok(name, "")
}

func bearInto(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tryClone(&syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}); err != nil {
		return fmt.Errorf("clone3 (CLONE_INTO_CGROUP): %w", err)
	}
	return nil
}

const groupFix = "mount the cgroup2 file system (hybrid is enough) and let the agent write to it"

// makeGroup makes an empty v2 group below the one this process is in.
func makeGroup() (string, error) {
	own, err := cgroup.Own()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(own, fmt.Sprintf("tb-probe-%d-", os.Getpid()))
}
