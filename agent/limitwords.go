package agent

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// limitDenial explains the limit that ended a job, and the smallest raise of the request that gives it room.
func limitDenial(l api.Limit, in, most limits, u api.Usage) api.Denial {
	d := api.Denial{
		Layer: "limit", Rule: "limit." + l.Name, Errno: limitErrno[l.Name], Count: 1, Evidence: fromKernel, AtMS: u.WallMS,
		What: fmt.Sprintf("use more %s than %s", limitWords[l.Name], l.Value),
	}
	if l.Name == "netlink" {
		d.Fix, d.Why = noFix, "the kernel counts these messages as nobody's memory, so no limit of the request is about them; read the answers, or close the sockets"
		return d
	}
	if short := nodeShort(l, in, u); short != "" {
		d.What, d.Fix, d.Why = "use memory that the node does not have", noFix, short
		return d
	}
	var atCap []string
	if d.Fix, atCap = raiseFix(in, most, l.Name); len(atCap) > 0 {
		d.Why = fmt.Sprintf("the node allows no higher %s limit; make the job smaller, or have the operator raise limits.max.%s", l.Name, l.Name)
		return d
	}
	d.Why = fmt.Sprintf("the job reached its %s limit, set by: %s; ask for more in the request, up to the node's cap", l.Name, l.SetBy)
	if l.Name == "memory" && u.MemoryPeakBytes > 0 {
		d.Why = fmt.Sprintf("the job held %s at its peak; ", quantity(u.MemoryPeakBytes)) + d.Why
	}
	return d
}

// nodeShort tells whether the kernel killed for want of memory on the node, long before the job reached its own limit.
// The kernel counts both kills alike, and the peak tells them apart.
func nodeShort(l api.Limit, in limits, u api.Usage) string {
	if l.Name != "memory" || u.MemoryPeakBytes == 0 || u.MemoryPeakBytes > in.Memory.Value/4*3 {
		return ""
	}
	return fmt.Sprintf("the node itself, or the container of the agent, ran out of memory while the job held %s of its %s; run fewer or smaller jobs on this node",
		quantity(u.MemoryPeakBytes), l.Value)
}

var limitWords = map[string]string{
	"wall": "wall-clock time", "cpu": "CPU time", "memory": "memory", "pids": "processes and threads",
	"netlink": "memory for netlink messages that nobody reads", "output": "output on one stream", "disk": "disk space", "inodes": "files and directories",
}

var limitErrno = map[string]string{"memory": "ENOMEM", "netlink": "ENOBUFS", "pids": "EAGAIN", "disk": "ENOSPC", "inodes": "ENOSPC", "output": "EPIPE", "wall": "ETIME", "cpu": "ETIME"}

// raiseFix is the change of the request that doubles each of some limits, as far as the node's caps allow; atCap are
// those that are at their cap already. Without any other the fix is null.
func raiseFix(in, most limits, names ...string) (fix jsontext.Value, atCap []string) {
	raise := map[string]any{}
	for _, name := range names {
		next, ok := raised(name, in, most)
		if !ok {
			atCap = append(atCap, "limits."+name)
			continue
		}
		raise[name] = next
	}
	if len(raise) == 0 {
		return noFix, atCap
	}
	return mustJSON(map[string]any{"limits": raise}), atCap
}

// raised doubles a limit, as far as the node's cap allows; false when it is at the cap already.
func raised(name string, in, most limits) (any, bool) {
	switch name {
	case "wall":
		return doubled(in.Wall, most.Wall, time.Duration.String)
	case "cpu":
		return doubled(in.CPU, most.CPU, time.Duration.String)
	}
	for _, l := range sizesOf(&in, &most) {
		if l.name != name {
			continue
		}
		if !l.number {
			return doubled(*l.in, *l.most, quantity)
		}
		v, ok := doubled(*l.in, *l.most, wholeNumber)
		return json.Number(v), ok
	}
	return nil, false
}

type sizeLimit struct {
	name     string
	number   bool // on the wire, else a quantity
	in, most *limit[int64]
}

func sizesOf(in, most *limits) []sizeLimit {
	return []sizeLimit{
		{"memory", false, &in.Memory, &most.Memory}, {"disk", false, &in.Disk, &most.Disk},
		{"shm", false, &in.Shm, &most.Shm}, {"output", false, &in.Output, &most.Output},
		{"pids", true, &in.Pids, &most.Pids}, {"inodes", true, &in.Inodes, &most.Inodes},
		{"open_files", true, &in.OpenFiles, &most.OpenFiles},
	}
}

// setBy is who set a limit of a size or a number.
func (l limits) setBy(name string) string {
	for _, s := range sizesOf(&l, &l) {
		if s.name == name {
			return s.in.SetBy
		}
	}
	return ""
}

func wholeNumber(n int64) string { return strconv.FormatInt(n, 10) }

func doubled[T time.Duration | int64](in, most limit[T], text func(T) string) (string, bool) {
	next := 2 * in.Value
	if most.Value > 0 {
		next = min(next, most.Value)
	}
	return text(next), next > in.Value
}
