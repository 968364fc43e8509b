package launch

import (
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// step is one named act. Its name is what the caller reads when it fails.
type step struct {
	name string
	do   func(*stage) error
}

// stage is what the steps know.
type stage struct {
	wire.Exec
	conn      *wire.Conn
	stdio     [3]int // stdin -1: there is none
	root      int    // in a plan that chroots
	landlock  int    // ABI in force
	coreSched bool
	program   string // path of the executable
	last      last
}

// steps are the plan's steps in order. testdata/steps.golden shows them.
func steps(p wire.Plan) []step {
	var list []step
	add := func(when bool, name string, do func(*stage) error) {
		if when {
			list = append(list, step{name, do})
		}
	}
	add(p.Chroot, "chroot", enterRoot) // before the ids change: it needs CAP_SYS_CHROOT
	add(true, "stdio", setStdio)
	add(true, "session", newSession)
	add(true, "signals", resetSignals)
	add(true, "scheduling", resetScheduling)
	add(true, "affinity", setAffinity)
	add(true, "core", takeCore)
	add(true, "personality", resetPersonality)
	add(true, "merging", stopMerging)
	add(true, "keyring", newKeyring)
	add(true, "rlimits", setRlimits) // by the process itself: from outside they would be undone, or refused across uids
	add(true, "umask", setUmask)
	add(true, "securebits", lockSecurebits) // needs CAP_SETPCAP, as does the next
	add(true, "bounding set", dropBoundingSet)
	add(true, "ids", setIDs)
	add(true, "capabilities", dropCapabilities)
	add(true, "no_new_privs", noNewPrivs)
	add(true, "cwd", enterCwd)            // with the program's ids, so that it opens no directory they may not
	add(true, "command", findProgram)     // in the directory and with the ids it will run with
	add(true, "landlock", restrictAccess) // needs no_new_privs
	add(true, "poise", poise)             // the warden seizes this thread now
	add(true, "descriptors", closeDescriptors)
	add(p.Filter && !p.Listen, "filter", readFilter)
	add(p.Listen, "filter with listener", readListened)
	add(true, "execve", execute) // under the filter, which need not allow any step above
	return list
}

func setUmask(*stage) error { unix.Umask(0o022); return nil }

// newSession takes the program out of init's process group, which reaches beyond the jail: kill(0, …) stays inside.
func newSession(*stage) error {
	_, err := unix.Setsid()
	return call("setsid", err)
}

func noNewPrivs(*stage) error {
	return call("prctl(PR_SET_NO_NEW_PRIVS)", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// closeDescriptors marks whatever is open above stderr, so that the program starts with exactly 0, 1 and 2. The socket to
// the warden stays usable until then.
func closeDescriptors(*stage) error {
	return call("close_range", unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC))
}
