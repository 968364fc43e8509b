package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// outcome of one test. A test that ran twice, with and without root, here and in the VM, counts once: the highest stands.
type outcome int

const (
	skip outcome = iota + 1
	pass
	fail
)

// result is one run.
type result struct {
	Name    string
	Tests   map[string]outcome // "package Test/sub"
	Started time.Time
	Seconds float64
}

func begin(name string) result {
	return result{Name: name, Tests: map[string]outcome{}, Started: time.Now()}
}

// count is how many tests came out as o.
func (r *result) count(o outcome) int {
	n := 0
	for _, have := range r.Tests {
		if have == o {
			n++
		}
	}
	return n
}

func (r *result) set(key string, o outcome) { r.Tests[key] = max(r.Tests[key], o) }

// save keeps the result for report.
func (r *result) save(dir string) error {
	r.Seconds = time.Since(r.Started).Seconds()
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Name+".result"), text, 0o666)
}

// load reads every run kept in dir, in the order in which they began.
func load(dir string) ([]result, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.result"))
	if err != nil {
		return nil, err
	}
	var all []result
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r result
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b result) int { return a.Started.Compare(b.Started) })
	return all, nil
}
