package policy

import "golang.org/x/sys/unix"

// cores are the calls that set resource limits. A job starts with a core limit of 1, of which the kernel makes neither a core file nor
// a run of core_pattern's program; with 0, where core_pattern is a pipe, that program would run as the node's root and be fed what
// the job has in memory. Programs lower the limit in good faith, some end when they cannot, and what they want they have.
func cores() []entry {
	return []entry{
		{"setrlimit", []Case{
			skip("core_limit", "RLIMIT_CORE", whyNoCores, int32Arg(0, unix.RLIMIT_CORE)),
			allow(""),
		}},
		{"prlimit64", []Case{
			allow("RLIMIT_CORE, and no new limit", int32Arg(1, unix.RLIMIT_CORE), null(2)),
			skip("core_limit", "RLIMIT_CORE, and no question for the old limit", whyNoCores, int32Arg(1, unix.RLIMIT_CORE), null(3)),
			deny("core_limit", unix.EPERM, "RLIMIT_CORE", whyNoCores+"; set it without asking for the old limit", int32Arg(1, unix.RLIMIT_CORE)),
			allow(""),
		}},
	}
}

const whyNoCores = "no process of a job leaves a core, and with a limit of 0 the node's root may still be made to collect one"

// null is an address of nothing.
func null(arg int) Match { return bits(arg, ^uint64(0), 0) }
