package explain

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// arguments words the register arguments that tell one use of a call from another. A call without words of its own gets
// dots: its arguments are addresses, or say nothing.
func arguments(name string, a [6]uint64) string {
	switch name {
	case "socket", "socketpair":
		return socket(a)
	case "setsockopt":
		if uint32(a[1]) == unix.SOL_TCP && uint32(a[2]) == unix.TCP_ULP {
			return "SOL_TCP, TCP_ULP"
		}
		if uint32(a[1]) == unix.SOL_SOCKET {
			return "SOL_SOCKET, " + symbol(a[2], socketOptions)
		}
		return fmt.Sprintf("level %d, option %d", int32(a[1]), int32(a[2]))
	case "clone":
		return clone(uint64(uint32(a[0])))
	case "unshare":
		return flags(uint64(uint32(a[0])), cloneFlags)
	case "setns":
		return flags(uint64(uint32(a[1])), cloneFlags)
	case "mount":
		return flags(a[3], mountFlags)
	case "umount2":
		return flags(uint64(uint32(a[1])), umountFlags)
	case "open_tree":
		return flags(uint64(uint32(a[2])), openTreeFlags)
	case "seccomp":
		return seccomp(a)
	case "ptrace":
		return symbol(a[0], ptraceRequests) + target(a[0], a[1])
	case "process_vm_readv", "process_vm_writev", "move_pages", "migrate_pages":
		return pid(a[0])
	case "kcmp":
		return pid(a[0]) + ", " + pid(a[1])
	case "bpf":
		return symbol(a[0], bpfCommands)
	case "keyctl":
		return symbol(a[0], keyctlOperations)
	case "prctl":
		return symbol(a[0], prctlOptions)
	case "madvise":
		return symbol(a[2], []named{{unix.MADV_MERGEABLE, "MADV_MERGEABLE"}})
	case "prlimit64":
		return symbol(a[1], []named{{unix.RLIMIT_CORE, "RLIMIT_CORE"}})
	case "ioctl":
		return hexSymbol(a[1], ioctls)
	case "personality":
		return flags(uint64(uint32(a[0])), personalities)
	case "sched_setscheduler":
		return symbol(a[1]&^0x40000000, schedulers)
	case "mmap":
		return pages(a[3], 0x40000, "MAP_HUGETLB")
	case "memfd_create":
		return pages(a[1], 0x4, "MFD_HUGETLB")
	case "shmget":
		return pages(a[2], 0o4000, "SHM_HUGETLB")
	case "mknod":
		return node(a[1], a[2])
	case "mknodat":
		return node(a[2], a[3])
	case "clock_settime", "clock_adjtime":
		return symbol(a[0], clocks)
	case "syslog":
		return symbol(a[0], syslogActions)
	case "io_uring_setup":
		return fmt.Sprintf("%d entries", uint32(a[0]))
	case "iopl":
		return fmt.Sprintf("level %d", uint32(a[0]))
	case "sync", "vhangup", "fork", "vfork":
		return ""
	}
	return "..."
}

func socket(a [6]uint64) string {
	words := []string{symbol(a[0], families), symbol(a[1]&0xf, socketTypes)}
	switch family, protocol := uint32(a[0]), a[2]; {
	case family == unix.AF_NETLINK:
		words = append(words, symbol(protocol, netlinkProtocols))
	case uint32(protocol) == 0:
	case family == unix.AF_INET || family == unix.AF_INET6:
		words = append(words, symbol(protocol, protocols))
	default:
		words = append(words, symbol(protocol, nil))
	}
	return strings.Join(words, ", ")
}

// clone words the flags that a policy may refuse; without any of them, the exit signal, which a thread has not.
func clone(v uint64) string {
	const exitSignal = 0xff
	special := v & (namespaceFlags | unix.CLONE_UNTRACED | unix.CLONE_PTRACE)
	if name := unix.SignalName(unix.Signal(v & exitSignal)); special == 0 && name != "" {
		return name
	}
	return flags(special, cloneFlags)
}

func seccomp(a [6]uint64) string {
	words := symbol(a[0], seccompOperations)
	if uint32(a[1]) != 0 {
		words += ", " + flags(uint64(uint32(a[1])), seccompFlags)
	}
	return words
}

// pages words the one flag of a call for memory that a policy looks at.
func pages(v, huge uint64, name string) string {
	return flags(v&huge, []named{{huge, name}})
}

// node words a file mode and, for a device, its number.
func node(mode, dev uint64) string {
	kind := mode & unix.S_IFMT
	words := symbol(kind, fileTypes)
	if kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		words += fmt.Sprintf(", %d:%d", unix.Major(uint64(uint32(dev))), unix.Minor(uint64(uint32(dev))))
	}
	return words
}

func pid(v uint64) string { return fmt.Sprintf("pid %d", int32(v)) }

// target is the process that a ptrace request is about. PTRACE_TRACEME has none; programs leave anything in its place.
func target(request, v uint64) string {
	const traceMe = 0
	if uint32(request) == traceMe {
		return ""
	}
	return ", " + pid(v)
}
