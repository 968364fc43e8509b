package probe

import (
	"cmp"
	"errors"
	"fmt"
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

func namespaceNames() []string {
	var names []string
	for _, ns := range namespaces {
		names = append(names, ns.name)
	}
	return names
}

func namespaceLayers(host settings) []Layer {
	layers := make([]Layer, 0, len(namespaces))
	for _, ns := range namespaces {
		attr := &syscall.SysProcAttr{Cloneflags: ns.flag}
		found := ""
		if ns.flag == unix.CLONE_NEWUSER {
			mapIDs(attr)
			found = userNamespaceFound(host)
		}
		err := tryClone(attr)
		if err == nil {
			layers = append(layers, ok(ns.name, found))
			continue
		}
		why, fix := namespaceFailure(err, ns.name, ns.sysctl, host)
		layers = append(layers, missing(ns.name, why, fix))
	}
	return layers
}

// userNamespaceFound tells of restrictions too that a privileged agent does not meet.
func userNamespaceFound(host settings) string {
	found := "with a range of 65536 ids"
	for _, s := range unprivilegedUserNamespaces {
		if value := host.sysctl(s.key); value != "" && value != s.want {
			found += ", although " + s.key + " is " + value
		}
	}
	return found
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

// unprivilegedUserNamespaces are the settings of distributions that keep user namespaces from processes without
// privileges: with the first, AppArmor lets one be made and then denies everything in it.
var unprivilegedUserNamespaces = []setting{
	{"kernel.apparmor_restrict_unprivileged_userns", "0"},
	{"kernel.unprivileged_userns_clone", "1"},
}

// namespaceFailure puts the error of a clone into words: why it failed, and the setting that stands in the way.
func namespaceFailure(err error, name, sysctl string, host settings) (why, fix string) {
	why = fmt.Sprintf("clone: %v", err)
	limit := host.sysctl(sysctl)
	denied := errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS), limit == "0":
		return why + ": as many as sysctl " + sysctl + " allows, " + cmp.Or(limit, "unknown"), "raise sysctl " + sysctl
	case denied && name == "userns":
		for _, s := range unprivilegedUserNamespaces {
			if value := host.sysctl(s.key); value != "" && value != s.want {
				return why + ": sysctl " + s.key + " is " + value, "run the agent as root with CAP_SYS_ADMIN, or sysctl -w " + s.assignment()
			}
		}
		fallthrough
	case denied:
		fix = "run as root with CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID"
		if outside := host.outside(); outside != "" {
			fix += "; what confines this process must allow it too: " + outside
		}
		return why, fix
	}
	return why, "use a kernel with this kind of namespace"
}
