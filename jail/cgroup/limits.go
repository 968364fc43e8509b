package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// What a jail needs for itself, added to the caller's figures so that they are the program's own: init and launch were
// measured at 3.2 MiB peak, and 4 to 5 tasks each until the program starts.
const (
	OverheadMemoryBytes = 4 << 20
	OverheadPids        = 8
)

// quotaPeriod is the kernel's own default, in microseconds. Its least quota is 1 ms.
const (
	quotaPeriod = 100_000
	quotaLeast  = 1_000
)

// ErrMissing is wrapped by the error for a limit whose controller this host does not offer.
var ErrMissing = errors.New("cgroup controller is missing")

// SetLimits sets all limits of the group, raised by the overhead of the jail itself; a zero limit is lifted.
func (g Group) SetLimits(l Limits) error {
	if l.MemoryBytes < 0 || l.Pids < 0 || !(l.CPUs >= 0) {
		return fmt.Errorf("set limits: negative limit in %+v", l)
	}
	if err := g.limit("memory", g.Memory, l.MemoryBytes > 0, func(dir string) error { return g.setMemory(dir, l.MemoryBytes) }); err != nil {
		return err
	}
	if err := g.limit("pids", g.Pids, l.Pids > 0, func(dir string) error { return setPids(dir, l.Pids) }); err != nil {
		return err
	}
	return g.limit("cpu", g.CPU, l.CPUs > 0, func(dir string) error { return g.setCPU(dir, l.CPUs) })
}

// limit calls set for the controller's directory. A controller that is missing is an error only when it is wanted.
func (g Group) limit(name, v1 string, wanted bool, set func(dir string) error) error {
	dir := g.controller(v1)
	if dir == "" {
		if wanted {
			return fmt.Errorf("set %s limit: %w", name, ErrMissing)
		}
		return nil
	}
	err := set(dir)
	if !g.hybrid() && errors.Is(err, fs.ErrNotExist) { // pure v2: a controller that is not enabled has no files
		if wanted {
			return fmt.Errorf("set %s limit: %w: %w", name, ErrMissing, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("set %s limit: %w", name, err)
	}
	return nil
}

func (g Group) setMemory(dir string, bytes int64) error {
	if g.hybrid() {
		return setMemoryV1(dir, bytes)
	}
	value := "max"
	if bytes > 0 {
		value = strconv.FormatInt(bytes+OverheadMemoryBytes, 10)
	}
	if err := write(dir, "memory.max", value); err != nil {
		return err
	}
	// One process of a job killed and the rest alive is a result that nobody can explain: the kernel kills all or none.
	if err := write(dir, "memory.oom.group", "1"); err != nil {
		return err
	}
	// Swap would let a job use more than its memory limit, at the cost of its neighbours' disk.
	return ifExists(write(dir, "memory.swap.max", "0"))
}

// setMemoryV1 lifts the limit of memory and swap together first: it may never be below that of memory alone.
func setMemoryV1(dir string, bytes int64) error {
	value := "-1"
	if bytes > 0 {
		value = strconv.FormatInt(bytes+OverheadMemoryBytes, 10)
	}
	err := write(dir, "memory.memsw.limit_in_bytes", "-1")
	swapCounted := !errors.Is(err, fs.ErrNotExist)
	if swapCounted && err != nil {
		return err
	}
	if err := write(dir, "memory.limit_in_bytes", value); err != nil {
		return err
	}
	if err := setSocketsV1(dir, bytes); err != nil {
		return err
	}
	if swapCounted {
		return write(dir, "memory.memsw.limit_in_bytes", value)
	}
	return ifExists(write(dir, "memory.swappiness", "0"))
}

// setSocketsV1 bounds what TCP and UDP sockets hold, which v1 counts apart and, without a limit, against the whole node's
// budget (net.ipv4.tcp_mem): one job used that up. v2 counts it as memory. At the limit the kernel closes windows and drops
// datagrams; nothing is killed.
func setSocketsV1(dir string, bytes int64) error {
	const share = 4
	value := "-1"
	if bytes > 0 {
		value = strconv.FormatInt(bytes/share, 10)
	}
	return ifExists(write(dir, "memory.kmem.tcp.limit_in_bytes", value))
}

func setPids(dir string, n int64) error {
	if n == 0 {
		return write(dir, "pids.max", "max")
	}
	return write(dir, "pids.max", strconv.FormatInt(n+OverheadPids, 10))
}

func (g Group) setCPU(dir string, cpus float64) error {
	quota := int64(cpus * quotaPeriod)
	if cpus > 0 && quota < quotaLeast {
		return fmt.Errorf("%g CPUs is below the kernel's least, %g", cpus, float64(quotaLeast)/quotaPeriod)
	}
	if g.hybrid() {
		if err := write(dir, "cpu.cfs_period_us", strconv.Itoa(quotaPeriod)); err != nil {
			return err
		}
		if quota == 0 {
			quota = -1
		}
		return write(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
	}
	value := "max"
	if quota > 0 {
		value = strconv.FormatInt(quota, 10)
	}
	return write(dir, "cpu.max", value+" "+strconv.Itoa(quotaPeriod))
}

// ifExists drops the error of a control file that this kernel does not have.
func ifExists(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
