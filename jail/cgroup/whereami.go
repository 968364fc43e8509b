package cgroup

// Own is the v2 directory of the calling process's own group.
func Own() (string, error) {
	o, err := readOwn()
	return o.Unified, err
}
