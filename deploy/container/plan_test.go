package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Mount tables as runtimes make them, cut to the lines that matter.
const (
	unprivilegedV2 = `100 99 0:57 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
101 99 0:52 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
102 101 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw
103 100 0:57 /sys /proc/sys ro,nosuid,nodev,noexec,relatime - proc proc rw
104 100 0:58 /null /proc/keys rw,nosuid - tmpfs tmpfs rw
`
	unprivilegedV1 = `100 99 0:57 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
102 101 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw
103 102 0:32 /kubepods/pod1/c /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,memory
104 100 0:57 /sys /proc/sys ro,nosuid,nodev,noexec,relatime - proc proc rw
`
	privilegedV2 = `100 99 0:57 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
102 101 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw
`
)

func TestPlan(t *testing.T) {
	tests := []struct {
		name, mounts string
		want         []string
	}{
		{"unprivileged, v2", unprivilegedV2, []string{"mount proc /proc", "writable /sys/fs/cgroup"}},
		{"unprivileged, v1", unprivilegedV1, []string{
			"mount proc /proc", "writable /sys/fs/cgroup", "writable /sys/fs/cgroup/memory",
			"mkdir /sys/fs/cgroup/unified", "mount cgroup2 /sys/fs/cgroup/unified",
		}},
		{"nothing to do", privilegedV2, nil},
		{"whole proc, but read-only", strings.Replace(privilegedV2, "/proc rw", "/proc ro", 1), []string{"mount proc /proc"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mounts, err := readMounts(tt.mounts)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range plan(mounts) {
				verb := map[action]string{makeDir: "mkdir ", mountNew: "mount " + s.kind + " ", remountWritable: "writable "}[s.action]
				got = append(got, verb+s.point)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadMountsRefusesWhatItCannotRead(t *testing.T) {
	if _, err := readMounts("36 35 98:0 / /mnt rw\n"); err == nil {
		t.Error("a line without separator was accepted")
	}
}
