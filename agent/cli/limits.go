package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// limitNames are the limits of a request. Each is a flag of its own too: --memory 1Gi is --limit memory=1Gi.
var limitNames = []struct {
	name, flag, usage string
	number            bool // a JSON number on the wire, else a string
}{
	{"wall", "wall", "wall clock, such as 30s", false},
	{"cpu", "cpu", "CPU time, such as 10s", false},
	{"cpus", "cpus", "CPUs at a time, such as 1.5", true},
	{"memory", "memory", "memory, such as 512Mi", false},
	{"pids", "pids", "processes and threads", true},
	{"disk", "disk", "bytes written to the workspace, such as 1Gi", false},
	{"inodes", "inodes", "files made in the workspace", true},
	{"shm", "shm", "size of /dev/shm, such as 64Mi", false},
	{"output", "output-limit", "bytes kept of each of stdout and stderr, such as 1Mi", false},
	{"open_files", "open-files", "open files a process", true},
}

// limitsOf reads the limit flags. The types of the API say what a value may be, so each is handed to them as JSON.
func limitsOf(c *cli.Context) (api.Limits, error) {
	var limits api.Limits
	given, err := pairs("limit", c.StringSlice("limit"))
	if err != nil {
		return limits, err
	}
	for _, l := range limitNames {
		value, ok := given[l.name]
		delete(given, l.name)
		if c.IsSet(l.flag) {
			value, ok = c.String(l.flag), true
		}
		if !ok {
			continue
		}
		if err := setLimit(&limits, l.name, value, l.number); err != nil {
			return limits, usagef("limit %s=%s: %w", l.name, value, err)
		}
	}
	if len(given) > 0 {
		return limits, usagef("no limit %q; there are %s", slices.Sorted(maps.Keys(given))[0], limitList())
	}
	return limits, nil
}

func setLimit(limits *api.Limits, name, value string, number bool) error {
	var wire any = value
	if number {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", value)
		}
		wire = n
	}
	field, err := json.Marshal(map[string]any{name: wire})
	if err != nil {
		return err
	}
	return json.Unmarshal(field, limits, json.RejectUnknownMembers(true))
}

func limitList() string {
	names := make([]string, len(limitNames))
	for i, l := range limitNames {
		names[i] = l.name
	}
	return strings.Join(names, ", ")
}
