package agent

import (
	"strconv"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// effective is what a job runs under, with everything filled in that its request left open.
func effective(w *work) *api.Effective {
	change := w.Policy.Change()
	return &api.Effective{
		Env:     variables(w.Env),
		Limits:  w.Limits.list(),
		Network: w.Network.wire(),
		Policy:  api.Policy{Extras: change.Extras, Deny: change.Deny},
	}
}

// variables are the names of an environment. Values can be secrets, and the caller knows its own.
func variables(env []string) []string {
	names := make([]string, 0, len(env))
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return names
}

// list are the limits one by one, each with who set it. There need not be one on CPU time.
func (l limits) list() []api.Limit {
	list := []api.Limit{
		{Name: "wall", Value: api.Duration(l.Wall.Value).String(), SetBy: l.Wall.SetBy},
		{Name: "cpus", Value: strconv.FormatFloat(l.CPUs.Value, 'g', -1, 64), SetBy: l.CPUs.SetBy},
		{Name: "memory", Value: quantity(l.Memory.Value), SetBy: l.Memory.SetBy},
		{Name: "pids", Value: wholeNumber(l.Pids.Value), SetBy: l.Pids.SetBy},
		{Name: "disk", Value: quantity(l.Disk.Value), SetBy: l.Disk.SetBy},
		{Name: "inodes", Value: wholeNumber(l.Inodes.Value), SetBy: l.Inodes.SetBy},
		{Name: "shm", Value: quantity(l.Shm.Value), SetBy: l.Shm.SetBy},
		{Name: "output", Value: quantity(l.Output.Value), SetBy: l.Output.SetBy},
		{Name: "open_files", Value: wholeNumber(l.OpenFiles.Value), SetBy: l.OpenFiles.SetBy},
	}
	if l.CPU.Value > 0 {
		list = append(list, api.Limit{Name: "cpu", Value: api.Duration(l.CPU.Value).String(), SetBy: l.CPU.SetBy})
	}
	return list
}

// wire is the network as a request would write it.
func (n network) wire() api.Network {
	return api.Network{Mode: n.Mode, Allow: n.Allow, Deny: n.Deny, Rate: api.Quantity(n.Rate), Budget: api.Quantity(n.Budget)}
}
