package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
)

// cgroupLayer tells whether limits can be set: memory, pids and cpu, wherever they sit.
func cgroupLayer() (cgroup.Support, Layer) {
	const fix = "give the agent a writable cgroup file system: root, and in Kubernetes a privileged container or a writable hostPath mount of /sys/fs/cgroup"
	support, err := cgroup.Probe()
	if err != nil {
		return support, missing("cgroup", err.Error(), fix)
	}
	if lack := support.Missing(); len(lack) > 0 {
		return support, missing("cgroup", strings.Join(lack, "; "), "delegate the controllers memory, pids and cpu to the agent's group (systemd: Delegate=yes)")
	}
	found := "memory, pids and cpu on v2"
	if support.Version != "v2" {
		found = "memory, pids and cpu on v1; kill, freeze and membership on v2"
	}
	return support, ok("cgroup", found)
}

// groupLayers try what needs a v2 group of its own: a child born in it, and programs that see its connections.
func groupLayers() []Layer {
	const fix = "mount the cgroup2 file system (hybrid is enough) and let the agent write to it"
	dir, err := makeGroup()
	if err != nil {
		why := err.Error()
		return []Layer{missing("clone-into-cgroup", why, fix), missing("connect-hooks", why, fix)}
	}
	defer os.Remove(dir)
	return []Layer{birthLayer(dir), connectLayer(dir)}
}

// makeGroup makes an empty v2 group below the one this process is in.
func makeGroup() (string, error) {
	own, err := cgroup.Own()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(own, "tb-probe-")
}

func birthLayer(dir string) Layer {
	f, err := os.Open(dir)
	if err != nil {
		return missing("clone-into-cgroup", err.Error(), "")
	}
	defer f.Close()
	if err := tryClone(&syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}); err != nil {
		return missing("clone-into-cgroup", fmt.Sprintf("clone3 (CLONE_INTO_CGROUP): %v", err), "use kernel 5.7 or newer, without a seccomp profile that refuses clone3")
	}
	return ok("clone-into-cgroup", "")
}

// connectLayer attaches a program that allows everything to a group that nobody is in.
func connectLayer(dir string) Layer {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "tb_probe",
		Type:         ebpf.CGroupSockAddr,
		AttachType:   ebpf.AttachCGroupInet4Connect,
		License:      "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		return missing("connect-hooks", fmt.Sprintf("load a cgroup/connect4 program: %v", short(err)), bpfFix(err))
	}
	defer program.Close()
	l, err := link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupInet4Connect, Program: program})
	if err != nil {
		return missing("connect-hooks", fmt.Sprintf("attach a cgroup/connect4 program: %v", err), bpfFix(err))
	}
	if err := l.Close(); err != nil {
		return missing("connect-hooks", fmt.Sprintf("detach a cgroup/connect4 program: %v", err), "")
	}
	return ok("connect-hooks", "a refused connect answers EPERM at once")
}

func bpfFix(err error) string {
	if errors.Is(err, syscall.EPERM) {
		return "grant CAP_SYS_ADMIN (or CAP_BPF with CAP_NET_ADMIN), without a seccomp profile that refuses bpf(2)"
	}
	return "use a kernel with CONFIG_CGROUP_BPF and CONFIG_NET_CLS_BPF"
}

// short leaves the verifier's log out of an error.
func short(err error) error {
	if v, isVerifier := errors.AsType[*ebpf.VerifierError](err); isVerifier {
		return v.Cause
	}
	return err
}
