package policy

import "golang.org/x/sys/unix"

// merging are the ways to let the kernel look for pages that are equal to others', of other jails too: by the time that a write
// takes one learns what they have in memory. The errno is that of a kernel that cannot.
func merging() []entry {
	return []entry{
		{"madvise", []Case{
			deny("merge", unix.EINVAL, "MADV_MERGEABLE", whyNoMerging, int32Arg(2, unix.MADV_MERGEABLE)),
			allow(""),
		}},
	}
}

const whyNoMerging = "pages that are shared with other jobs tell by the time of a write what is in them; programs run as well without"
