package agent

import (
	"encoding/json"

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

// suppressedCalls sums up the refused calls that the warden counted and did not record.
func suppressedCalls(n, atMS int64) api.Denial {
	return api.Denial{
		Layer: "syscall", What: "further refused system calls", Rule: "syscall.suppressed", Errno: "EPERM", Count: n, Fix: noFix,
		Why: "a run records so many kinds of refused calls at most; these were refused like any other, and only counted", Evidence: fromKernel, AtMS: atMS,
	}
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
		Fix: fix, Why: e.Why, Evidence: fromKernel, AtMS: e.AtMS,
	}, nil
}

// denialSet keeps denials in the order of their first appearance; the same attempt by the same program again only raises
// the count.
type denialSet struct {
	list  []api.Denial
	index map[denialKey]int
}

type denialKey struct{ rule, what, program string }

func keyOf(d api.Denial) denialKey { return denialKey{d.Rule, d.What, d.Program} }

func (s *denialSet) has(d api.Denial) bool {
	_, ok := s.index[keyOf(d)]
	return ok
}

// add reports whether d was new.
func (s *denialSet) add(d api.Denial) bool {
	key := keyOf(d)
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
