package hostile

// Chapter B: files and mounts.
var attacksB = []attack{
	{id: "B2", file: "b02_descriptors.py", held: 3},
	{id: "B3", file: "b03_self_exe.py", held: 11},
	{id: "B5", file: "b05_mount.py", held: 16, rules: []string{"syscall.mount", "syscall.open_tree", "syscall.fsopen"}},
	{id: "B7", file: "b07_knobs.py", held: 29},
	{id: "B8", file: "b08_devices.py", held: 33, weak: []string{"mknod whiteout *"}},
	{id: "B9", file: "b09_handles.py", held: 4, rules: []string{"syscall.open_by_handle_at"}},
}
