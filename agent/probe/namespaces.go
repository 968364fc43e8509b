package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces are tried one by one, so that a failure has a name. The sysctl bounds how many there may be.
var namespaces = []struct {
	name   string
	flag   uintptr
	sysctl string
}{
	{"userns", unix.CLONE_NEWUSER, "user.max_user_namespaces"},
	{"pidns", unix.CLONE_NEWPID, "user.max_pid_namespaces"},
	{"mountns", unix.CLONE_NEWNS, "user.max_mnt_namespaces"},
	{"netns", unix.CLONE_NEWNET, "user.max_net_namespaces"},
	{"ipcns", unix.CLONE_NEWIPC, "user.max_ipc_namespaces"},
	{"utsns", unix.CLONE_NEWUTS, "user.max_uts_namespaces"},
	{"cgroupns", unix.CLONE_NEWCGROUP, "user.max_cgroup_namespaces"},
}

func namespaceLayers() []Layer {
	layers := make([]Layer, 0, len(namespaces))
	for _, ns := range namespaces {
		attr := &syscall.SysProcAttr{Cloneflags: ns.flag}
		found := ""
		if ns.flag == unix.CLONE_NEWUSER {
			mapIDs(attr)
			found = "with a range of 65536 ids"
		}
		err := tryClone(attr)
		if err == nil {
			layers = append(layers, ok(ns.name, found))
			continue
		}
		layers = append(layers, missing(ns.name, fmt.Sprintf("clone: %v", err), namespaceFix(err, ns.name, ns.sysctl)))
	}
	return layers
}

// mapIDs asks for the same kind of mapping that a jail gets: 65536 ids that the host does not use.
func mapIDs(attr *syscall.SysProcAttr) {
	const base, size = 0x70000000, 65536
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: size}}
	attr.GidMappings = attr.UidMappings
	attr.GidMappingsEnableSetgroups = true
	attr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
}

// tryClone makes a child with attr that runs nothing: its execve of the empty name gives ENOENT when everything up to
// there worked. Any other error is that of the step which failed.
func tryClone(attr *syscall.SysProcAttr) error {
	_, err := syscall.ForkExec("", []string{"probe"}, &syscall.ProcAttr{Sys: attr})
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err == nil {
		return errors.New("execve of the empty name worked")
	}
	return err
}

// namespaceFix names the setting that most likely stands in the way.
func namespaceFix(err error, name, sysctl string) string {
	if limit := readSysctl(sysctl); errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) || limit == "0" {
		return fmt.Sprintf("raise sysctl %s (now %s)", sysctl, orUnknown(limit))
	}
	if name == "userns" && os.Geteuid() != 0 {
		for _, s := range []struct{ key, blocked string }{
			{"kernel.apparmor_restrict_unprivileged_userns", "1"},
			{"kernel.unprivileged_userns_clone", "0"},
		} {
			if readSysctl(s.key) == s.blocked {
				return fmt.Sprintf("run the agent as root, or set sysctl %s, now %s, to the other value", s.key, s.blocked)
			}
		}
	}
	if errors.Is(err, syscall.EPERM) {
		return "run as root with CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID, without a seccomp or AppArmor profile that refuses clone with new namespaces"
	}
	return "use a kernel with this kind of namespace"
}

// readSysctl answers "" for a setting that this kernel does not have.
func readSysctl(key string) string {
	data, err := os.ReadFile(sysctlPath(key))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func sysctlPath(key string) string { return "/proc/sys/" + strings.ReplaceAll(key, ".", "/") }

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
