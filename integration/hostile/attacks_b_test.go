package hostile

import "time"

// Chapter B: files and mounts.
var attacksB = []attack{
	{id: "B1", file: "b01_chroot.py", held: 40, rules: []string{"syscall.chroot"}},
	{id: "B2", file: "b02_descriptors.py", held: 3},
	{id: "B3", file: "b03_self_exe.py", held: 11},
	{id: "B3", file: "b03_watcher.py", held: 5, within: 30 * time.Second},
	{id: "B5", file: "b05_mount.py", held: 16, rules: []string{"syscall.mount", "syscall.open_tree", "syscall.fsopen"}},
	{id: "B7", file: "b07_knobs.py", held: 29},
	{id: "B7", file: "b07_core.py", held: 13, rules: []string{"syscall.core_limit"}, weak: []string{"lower core limit", "exchange core limit"}},
	{id: "B8", file: "b08_devices.py", held: 33, weak: []string{"mknod whiteout *"}},
	{id: "B9", file: "b09_handles.py", held: 4, rules: []string{"syscall.open_by_handle_at"}},
	{id: "B15", file: "b15_setuid.py", held: 30},
	{id: "B16", file: "b16_shared.py", held: 14, rules: []string{"syscall.huge_pages"}, weak: []string{"mmap *huge*", "memfd huge*", "shm huge*"}},
	{id: "B16", file: "b16_reserve.py", held: 25, rules: []string{"syscall.reserve"}, sydOnly: "without a filter fallocate takes all that is free, until the job is killed for it some 20 ms later (docs/security.md)"},

	// What is not on anybody's list.
	{id: "B", file: "b_overlay.py", held: 100},
	{id: "B", file: "b_descriptors.py", held: 10},
}
