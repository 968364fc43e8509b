package cgroup

import (
	"errors"
	"io/fs"
	"time"
)

// Usage reads what the group has used so far. Counters whose controller or kernel support is missing are 0.
func (g Group) Usage() (Usage, error) {
	var u Usage
	usec, err := readKey(g.Unified, "cpu.stat", "usage_usec") // there in every v2 group, whoever has the cpu controller
	if err != nil {
		return u, err
	}
	u.CPU = time.Duration(usec) * time.Microsecond
	if dir := g.controller(g.Memory); dir != "" {
		if err := g.memoryUsage(dir, &u); ifExists(err) != nil {
			return u, err
		}
	}
	if dir := g.controller(g.Pids); dir != "" {
		u.PidsPeak, err = readInt(dir, "pids.peak")
		if ifExists(err) != nil {
			return u, err
		}
		u.PidsRefused, err = readKey(dir, "pids.events", "max")
		if ifExists(err) != nil {
			return u, err
		}
	}
	return u, nil
}

func (g Group) memoryUsage(dir string, u *Usage) (err error) {
	if u.OOMKills, err = g.oomKills(dir); err != nil {
		return err
	}
	if g.hybrid() {
		u.MemoryPeakBytes, err = readInt(dir, "memory.max_usage_in_bytes")
		return err
	}
	u.MemoryPeakBytes, err = readInt(dir, "memory.peak")
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if u.OOMKills > 0 {
		u.MemoryPeakBytes, err = readInt(dir, "memory.max")
		return err
	}
	u.MemoryPeakBytes, err = readInt(dir, "memory.current")
	return err
}

func (g Group) oomKills(dir string) (int64, error) {
	if g.hybrid() {
		return readKey(dir, "memory.oom_control", "oom_kill")
	}
	return readKey(dir, "memory.events", "oom_kill")
}

// Processes lists the group's processes, as the caller's pid namespace numbers them.
func (g Group) Processes() ([]int, error) { return readPids(g.Unified) }

// Populated reports whether any process is in the group. A zombie is not.
func (g Group) Populated() (bool, error) {
	n, err := readKey(g.Unified, "cgroup.events", "populated")
	return n != 0, err
}
