package probe

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// landlockLayer asks for the version of the interface.
func landlockLayer() Layer {
	const versionFlag = 1
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, versionFlag)
	switch {
	case errors.Is(errno, syscall.ENOSYS):
		return missing("landlock", "this kernel has no Landlock", "use kernel 5.13 or newer with CONFIG_SECURITY_LANDLOCK; jails run without this second wall")
	case errors.Is(errno, syscall.EOPNOTSUPP):
		return missing("landlock", "Landlock is built in but off", "add landlock to the kernel's lsm= list; jails run without this second wall")
	case errno != 0:
		return missing("landlock", fmt.Sprintf("landlock_create_ruleset (version): %v", errno), "allow landlock_create_ruleset(2) in the outer seccomp profile")
	}
	return ok("landlock", fmt.Sprintf("ABI %d", abi))
}

// enoughFiles is how many descriptors an agent with some dozens of jobs holds; each job takes about twenty.
const enoughFiles = 4096

func filesLayer() Layer {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return missing("open-files", fmt.Sprintf("getrlimit (RLIMIT_NOFILE): %v", err), "")
	}
	if limit.Max < enoughFiles {
		return missing("open-files", fmt.Sprintf("the hard limit of open files is %d", limit.Max), fmt.Sprintf("raise it to %d or more (systemd: LimitNOFILE=)", enoughFiles))
	}
	return ok("open-files", fmt.Sprintf("hard limit %d", limit.Max))
}
