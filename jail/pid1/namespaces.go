package pid1

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// namespaceKinds are the kinds of which the kernel counts how many a user namespace and those below it have.
var namespaceKinds = []string{"user", "cgroup", "ipc", "mnt", "net", "pid", "time", "uts"}

// namespaceLimits are the jail's own settings of how many namespaces may be made in it. In a user namespace of its own a program
// has every capability again, so the rule is none; a filter may say so too, the minimal mode has none. The files are kept open:
// what the job sees of /proc/sys is read-only.
type namespaceLimits []*os.File

func openNamespaceLimits(proc int) (namespaceLimits, error) {
	var list namespaceLimits
	for _, kind := range namespaceKinds {
		name := "sys/user/max_" + kind + "_namespaces"
		fd, err := unix.Openat(proc, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil { // of a kernel without sysctl too: nothing would then hold
			return nil, fmt.Errorf("openat /proc/%s: %w", name, err)
		}
		list = append(list, os.NewFile(uintptr(fd), "/proc/"+name))
	}
	return list, nil
}

// set allows n namespaces of each kind.
func (l namespaceLimits) set(n int) error {
	for _, f := range l {
		if _, err := f.WriteAt([]byte(strconv.Itoa(n)), 0); err != nil {
			return err
		}
	}
	return nil
}

func forbidNamespaces(b *builder) error { return b.namespaces.set(0) }
