package agent

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/explain"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// noFix is the fix of a refusal that no change of the request can lift.
var noFix = jsontext.Value("null")

// wordCalls words refused system calls as the warden recorded them, alike ones once. Extras are those that a fix may ask for.
func wordCalls(p policy.Policy, extras []string, records [][]byte) ([]api.Denial, error) {
	var merged denialSet
	for _, rec := range records {
		d, err := wordCall(p, extras, rec)
		if err != nil {
			return merged.list, err
		}
		merged.add(d)
	}
	return merged.list, nil
}

// wordCall turns the warden's raw account of a refused call into words.
func wordCall(p policy.Policy, extras []string, payload []byte) (api.Denial, error) {
	var raw jail.Denial
	if err := json.Unmarshal(payload, &raw); err != nil {
		return api.Denial{}, err
	}
	e := explain.Syscall(p, raw, extras)
	fix := noFix
	if len(e.Fix) > 0 {
		fix = jsontext.Value(e.Fix)
	}
	return api.Denial{
		Layer: e.Layer, What: e.What, Rule: e.Rule, Errno: e.Errno, Count: e.Count, PID: e.PID, Program: e.Program,
		Fix: fix, Why: e.Why, AtMS: e.AtMS,
	}, nil
}

// denialSet keeps denials in the order of their first appearance; the same attempt by the same program again only raises
// the count.
type denialSet struct {
	list  []api.Denial
	index map[denialKey]int
}

type denialKey struct{ rule, what, program string }

// add reports whether d was new.
func (s *denialSet) add(d api.Denial) bool {
	key := denialKey{d.Rule, d.What, d.Program}
	if i, ok := s.index[key]; ok {
		s.list[i].Count += d.Count
		return false
	}
	if s.index == nil {
		s.index = map[denialKey]int{}
	}
	s.index[key] = len(s.list)
	s.list = append(s.list, d)
	return true
}

// limitDenial explains the limit that ended a job, and the smallest raise of the request that gives it room.
func limitDenial(l api.Limit, in, most limits, u api.Usage) api.Denial {
	d := api.Denial{
		Layer: "limit", Rule: "limit." + l.Name, Errno: limitErrno[l.Name], Count: 1, Fix: noFix, AtMS: u.WallMS,
		What: fmt.Sprintf("use more %s than %s", limitWords[l.Name], l.Value),
	}
	next, ok := raised(l.Name, in, most)
	if !ok {
		d.Why = fmt.Sprintf("the node allows no higher %s limit; make the job smaller, or have the operator raise limits.max.%s", l.Name, l.Name)
		return d
	}
	d.Fix = jsontext.Value(mustJSON(map[string]any{"limits": map[string]any{l.Name: next}}))
	d.Why = fmt.Sprintf("the job reached its %s limit, set by: %s; ask for more in the request, up to the node's cap", l.Name, l.SetBy)
	return d
}

var limitWords = map[string]string{
	"wall": "wall-clock time", "cpu": "CPU time", "memory": "memory", "pids": "processes and threads",
	"output": "output on one stream", "disk": "disk space", "inodes": "files and directories",
}

var limitErrno = map[string]string{"memory": "ENOMEM", "pids": "EAGAIN", "disk": "ENOSPC", "inodes": "ENOSPC", "output": "EPIPE", "wall": "ETIME", "cpu": "ETIME"}

// raised doubles a limit, as far as the node's cap allows; false when it is at the cap already.
func raised(name string, in, most limits) (any, bool) {
	switch name {
	case "wall":
		return doubled(in.Wall, most.Wall, time.Duration.String)
	case "cpu":
		return doubled(in.CPU, most.CPU, time.Duration.String)
	case "memory":
		return doubled(in.Memory, most.Memory, quantity)
	case "output":
		return doubled(in.Output, most.Output, quantity)
	case "disk":
		return doubled(in.Disk, most.Disk, quantity)
	case "pids":
		v, ok := doubled(in.Pids, most.Pids, wholeNumber)
		return json.Number(v), ok
	case "inodes":
		v, ok := doubled(in.Inodes, most.Inodes, wholeNumber)
		return json.Number(v), ok
	}
	return nil, false
}

func wholeNumber(n int64) string { return strconv.FormatInt(n, 10) }

func doubled[T time.Duration | int64](in, most limit[T], text func(T) string) (string, bool) {
	next := 2 * in.Value
	if most.Value > 0 {
		next = min(next, most.Value)
	}
	return text(next), next > in.Value
}
