package probe

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Capability is one capability that the agent uses.
type Capability struct {
	Name     string `json:"name"`
	Held     bool   `json:"held"`
	Why      string `json:"why"`
	Optional bool   `json:"optional,omitzero"`
}

// wanted are the capabilities that the agent uses, and what for. Each required one was left out in turn on a node, and
// something failed, some of it without an error (FSETID: a set-group-id bit is dropped; KILL: a signal never arrives).
// SETPCAP is not among them: a jail's processes drop capabilities in a user namespace of their own, where they have all.
var wanted = []struct {
	bit      uint
	name     string
	why      string
	optional bool
}{
	{unix.CAP_SYS_ADMIN, "SYS_ADMIN", "namespaces, mounts, control groups, BPF programs", false},
	{unix.CAP_SYS_PTRACE, "SYS_PTRACE", "hear about refused system calls of processes with another uid", false},
	{unix.CAP_NET_ADMIN, "NET_ADMIN", "interfaces, addresses, routes, packet programs and masquerade of a jail's network", false},
	{unix.CAP_NET_BIND_SERVICE, "NET_BIND_SERVICE", "answer a jail's name lookups on port 53 of its own loopback", false},
	{unix.CAP_SETUID, "SETUID", "map a range of user ids into a jail", false},
	{unix.CAP_SETGID, "SETGID", "map a range of group ids into a jail", false},
	{unix.CAP_CHOWN, "CHOWN", "give a jail's files to its ids", false},
	{unix.CAP_DAC_OVERRIDE, "DAC_OVERRIDE", "read, flush and remove files that a job wrote", false},
	{unix.CAP_FOWNER, "FOWNER", "restore modes and times of files that a job owns", false},
	{unix.CAP_FSETID, "FSETID", "restore set-group-id bits of directories", false},
	{unix.CAP_KILL, "KILL", "send signals to programs in jails", false},
	{unix.CAP_MKNOD, "MKNOD", "the six device nodes of a jail's /dev; whiteouts", false},
	{unix.CAP_SETFCAP, "SETFCAP", "restore file capabilities in a workspace", true},
	{unix.CAP_SYS_RESOURCE, "SYS_RESOURCE", "raise the limit of open files above the hard one", true},
}

// capabilities reads the effective set of this thread.
func capabilities() []Capability {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	list := make([]Capability, 0, len(wanted))
	for _, w := range wanted {
		held := err == nil && data[w.bit/32].Effective&(1<<(w.bit%32)) != 0
		list = append(list, Capability{Name: w.name, Held: held, Why: w.why, Optional: w.optional})
	}
	return list
}

func capabilityLayer(list []Capability) Layer {
	var lack, reasons, optional []string
	for _, c := range list {
		switch {
		case c.Held:
		case c.Optional:
			optional = append(optional, c.Name)
		default:
			lack = append(lack, c.Name)
			reasons = append(reasons, fmt.Sprintf("%s (%s)", c.Name, c.Why))
		}
	}
	if len(lack) > 0 {
		return missing("capabilities", "missing "+strings.Join(reasons, ", "),
			"run as root; in Kubernetes add "+strings.Join(lack, ", ")+" to securityContext.capabilities.add, and see that the platform's admission allows them")
	}
	found := plural(len(list)-len(optional), "capability", "capabilities")
	if len(optional) > 0 {
		found += ", without the optional " + strings.Join(optional, ", ")
	}
	return ok("capabilities", found)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
