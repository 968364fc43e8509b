package pid1

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cpuLists are the files of /sys by which a C library counts CPUs; the rest of sysfs tells about the node.
var cpuLists = []string{"online", "possible", "present"}

// cpuView is the jail's /sys: a small read-only file system that lists the CPUs which the job may use.
type cpuView struct{ mount int } // -1: there is none

// attachSys makes /sys where the root names CPUs.
func attachSys(b *builder) error {
	b.cpus.mount = -1
	if len(b.CPUs) == 0 {
		return nil
	}
	options := []option{{"size", "64k"}, {"nr_inodes", "16"}, {"mode", "0555"}}
	mount, err := newMount("tmpfs", options, mountFlags|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	b.cpus.mount = mount // kept open, for show
	dir := ""
	for _, name := range []string{"devices", "system", "cpu"} {
		dir += name + "/"
		if err := unix.Mkdirat(mount, dir, 0o755); err != nil {
			return fmt.Errorf("mkdirat /sys/%s: %w", dir, err)
		}
	}
	if err := b.cpus.show(b.CPUs); err != nil {
		return err
	}
	return b.attach(mount, "/sys", unix.O_DIRECTORY)
}

// show lists other CPUs. Precondition: nothing of the job runs yet.
func (v cpuView) show(cpus []int) error {
	if v.mount < 0 {
		return fmt.Errorf("no /sys to show CPUs in")
	}
	if err := setAttributes(v.mount, 0, unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	list := cpuList(cpus)
	for _, name := range cpuLists {
		if err := v.write("devices/system/cpu/"+name, list); err != nil {
			return err
		}
	}
	return setAttributes(v.mount, unix.MOUNT_ATTR_RDONLY, 0)
}

func (v cpuView) write(name, content string) error {
	fd, err := unix.Openat(v.mount, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return fmt.Errorf("openat /sys/%s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), "/sys/"+name)
	if _, err := f.WriteString(content); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// cpuList writes numbers as the kernel does: 0-2,5.
func cpuList(cpus []int) string {
	cpus = slices.Sorted(slices.Values(cpus))
	var ranges []string
	for i := 0; i < len(cpus); {
		end := i
		for end+1 < len(cpus) && cpus[end+1] == cpus[end]+1 {
			end++
		}
		text := strconv.Itoa(cpus[i])
		if end > i {
			text += "-" + strconv.Itoa(cpus[end])
		}
		ranges = append(ranges, text)
		i = end + 1
	}
	return strings.Join(ranges, ",") + "\n"
}
