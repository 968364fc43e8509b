package launch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Landlock's file rights (landlock(7)), by the ABI that brought them.
const (
	readAccess  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeAccess = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	abi1Access  = 1<<13 - 1
)

// newestABI is the last whose rights are known here. A newer kernel offers it all the same.
const newestABI = 7

// handledAccess are all file rights of an ABI: what is handled and not allowed by a rule is refused.
func handledAccess(abi int) uint64 {
	access := uint64(abi1Access)
	if abi >= 2 {
		access |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		access |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		access |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return access
}

// scopes keeps signals and abstract sockets inside the jail, from ABI 6.
func scopes(abi int) uint64 {
	if abi < 6 {
		return 0
	}
	return unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
}

// rule allows access below a directory.
type rule struct {
	dir    string
	access uint64
}

// rules: read everywhere, write to devices and to the files of /proc that the kernel lets the program write, everything below the
// job's own directories. Execute is for execute alone.
func rules(abi int, write, execute []string) []rule {
	const exec = unix.LANDLOCK_ACCESS_FS_EXECUTE
	all := handledAccess(abi) &^ exec
	list := []rule{
		{"/", readAccess},
		{"/dev", (writeAccess | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV) & all},
		{"/proc", writeAccess & all},
	}
	for _, dir := range write {
		list = append(list, rule{dir, all})
	}
	for _, dir := range execute {
		list = append(list, rule{dir, exec})
	}
	return list
}

// executable are the directories below which programs may be executed: all, or those that the job cannot change.
func (s *stage) executable() ([]string, error) {
	if !s.BaseExecOnly {
		return []string{"/"}, nil
	}
	return baseDirs("/", s.Landlock.Write)
}

// restrictAccess confines this thread by Landlock, as far as the kernel has it. TCP ports are not handled: a rule would
// need a list of them, and the network has a jail of its own.
func restrictAccess(s *stage) error {
	if !s.Landlocked {
		return nil
	}
	abi, err := landlockABI()
	if err == unix.ENOSYS || err == unix.EOPNOTSUPP { // not built, or not switched on
		if s.BaseExecOnly {
			return fmt.Errorf("landlock_create_ruleset: %w: this kernel has no Landlock, which execve_outside_base needs", err)
		}
		return nil // the result says so
	}
	if err != nil {
		return call("landlock_create_ruleset(VERSION)", err)
	}
	abi = min(abi, newestABI)
	set, err := createRuleset(unix.LandlockRulesetAttr{Handled_access_fs: handledAccess(abi), Scoped: scopes(abi)})
	if err != nil {
		return call("landlock_create_ruleset", err)
	}
	defer unix.Close(set)
	execute, err := s.executable()
	if err != nil {
		return err
	}
	for _, r := range rules(abi, s.Landlock.Write, execute) {
		if err := r.add(set); err != nil {
			return err
		}
	}
	if err := restrictSelf(set); err != nil {
		return call("landlock_restrict_self", err)
	}
	s.landlock = abi
	return nil
}

func (r rule) add(set int) error {
	fd, err := unix.Open(r.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return call("open "+r.dir, err)
	}
	defer unix.Close(fd)
	return call("landlock_add_rule "+r.dir, addRule(set, fd, r.access))
}
