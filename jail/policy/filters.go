package policy

import "golang.org/x/sys/unix"

// filters is one of the two calls that give a program a filter of its own; the other is prctl. Launch's, which loads this table's,
// comes before that is in force. A filter that asks a listener would be worse still: a listener's answer outranks this filter's, so
// that a program could answer its own refused calls with "go on". The errno is that of a kernel without filters, for which programs
// that want one are written.
func filters() []entry {
	return []entry{
		{"seccomp", []Case{
			allow("strict mode, or a question",
				int32Arg(0, unix.SECCOMP_SET_MODE_STRICT, unix.SECCOMP_GET_ACTION_AVAIL, unix.SECCOMP_GET_NOTIF_SIZES)),
			deny("seccomp_filter", unix.EINVAL, "a filter, with a listener or without", whyNoFilter,
				int32Arg(0, unix.SECCOMP_SET_MODE_FILTER)),
			deny("seccomp_operation", unix.EINVAL, "",
				"the operation is newer than this list, and an older kernel answers the same; do without it"),
		}},
	}
}

const whyNoFilter = "the kernel compiles each filter into room that the whole node shares, and freeing one job's many stopped a node for good; a job is filtered already, so go on without, as on a kernel that has no filters"
