package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/probe"
)

// agentPatience is how long doctor waits for an agent that may be the very thing that is broken.
const agentPatience = 2 * time.Second

func (t *tool) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "find out what this node can do, and what to do about the rest; exit 1 when the configured jail mode cannot run",
		Description: "doctor tries everything on this machine, with the rights of who calls it: run it as the agent runs.\n" +
			"It changes nothing, leaves nothing behind and needs no running agent; one that runs is asked for its health too.",
		Flags: withCommon(
			&cli.StringFlag{Name: "config", EnvVars: []string{"TOLBOOTH_CONFIG"}, Usage: "the agent's configuration `FILE`"},
			&cli.StringFlag{Name: "backend", EnvVars: []string{"SANDBOX_BACKEND"}, Usage: "the jail `MODE` that must work: syd or minimal", DefaultText: "the agent's, syd"},
			&cli.StringFlag{Name: "state", EnvVars: []string{"TOLBOOTH_STATE"}, Usage: "the agent's state `DIRECTORY`", DefaultText: "/var/lib/tolbooth"},
		),
		Action: t.doctor,
	}
}

// diagnosis is the JSON of `tolbooth doctor`.
type diagnosis struct {
	Mode   string       `json:"mode"`
	CanRun bool         `json:"can_run"`
	Agent  agentState   `json:"agent"`
	Node   probe.Report `json:"node"`
}

type agentState struct {
	Reached bool        `json:"reached"`
	Why     string      `json:"why,omitzero"` // when it was not
	Health  *api.Health `json:"health"`
}

func (t *tool) doctor(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	node, err := t.Configured(c)
	if err != nil {
		return &exitError{code: 1, err: fmt.Errorf("configuration: %w", err)}
	}
	d := diagnosis{Mode: node.Backend}
	agent, err := t.askAgent(c)
	if err != nil {
		return err
	}
	d.Agent = agent
	d.Node = probe.Run(c.Context, probe.Options{StateDir: node.State})
	d.CanRun = d.Node.Modes[d.Mode].Available

	if c.Bool(flagJSON) {
		err = t.printJSON(d)
	} else {
		err = t.printDiagnosis(d)
	}
	if err == nil && !d.CanRun {
		return &exitError{code: 1}
	}
	return err
}

func (t *tool) askAgent(c *cli.Context) (agentState, error) {
	agent, err := t.connect(c)
	if err != nil {
		return agentState{}, err
	}
	ctx, cancel := context.WithTimeout(c.Context, agentPatience)
	defer cancel()
	health, err := agent.Health(ctx)
	if err != nil {
		return agentState{Why: err.Error()}, nil
	}
	return agentState{Reached: true, Health: health}, nil
}

func (t *tool) printDiagnosis(d diagnosis) error {
	fmt.Fprintf(t.Stdout, "kernel %s %s, cgroups %s\n\n", d.Node.Kernel, d.Node.Arch, cmp.Or(d.Node.Cgroup, "unusable"))
	for _, rows := range [][][]string{layerRows(d.Node.Layers), modeRows(d.Node.Modes), languageRows(d.Node.Languages)} {
		if err := table(t.Stdout, rows); err != nil {
			return err
		}
		fmt.Fprintln(t.Stdout)
	}
	for _, l := range d.Node.Layers {
		if !l.OK {
			fmt.Fprintf(t.Stdout, "%s\n  why: %s\n  fix: %s\n", clean(l.Name), clean(l.Why), clean(l.Fix))
		}
	}
	fmt.Fprintln(t.Stdout)
	t.printAgent(d.Agent)
	if d.CanRun {
		fmt.Fprintf(t.Stdout, "mode %s, which this node is set to, can run here\n", d.Mode)
		return nil
	}
	_, err := fmt.Fprintf(t.Stdout, "mode %s, which this node is set to, CANNOT run here: missing %s\n", d.Mode, strings.Join(d.Node.Modes[d.Mode].Missing, ", "))
	return err
}

func (t *tool) printAgent(a agentState) {
	if !a.Reached {
		fmt.Fprintf(t.Stdout, "no agent answers: %s\n", clean(a.Why))
		return
	}
	fmt.Fprintf(t.Stdout, "the agent answers: %s, version %s, mode %s, grade %s\n", clean(a.Health.Status), clean(a.Health.Version), clean(a.Health.Jail.Mode), clean(a.Health.Jail.Grade))
	for _, p := range a.Health.Problems {
		fmt.Fprintf(t.Stdout, "%s\n  why: %s\n  fix: %s\n", clean(p.What), clean(p.Why), clean(p.Fix))
	}
}

func layerRows(layers []probe.Layer) [][]string {
	rows := [][]string{{"LAYER", "STATE", "NEEDED BY", "FOUND"}}
	for _, l := range layers {
		state := "ok"
		if !l.OK {
			state = "missing"
		}
		needed := cmp.Or(strings.Join(l.Needed, ", "), "-")
		rows = append(rows, []string{l.Name, state, needed, l.Found})
	}
	return rows
}

func modeRows(modes map[string]probe.Mode) [][]string {
	rows := [][]string{{"MODE", "CAN RUN", "MISSING", "BETTER WITH"}}
	for _, name := range []string{"syd", "minimal"} {
		m := modes[name]
		can := "yes"
		if !m.Available {
			can = "no"
		}
		rows = append(rows, []string{name, can, cmp.Or(strings.Join(m.Missing, ", "), "-"), strings.Join(m.Without, ", ")})
	}
	return rows
}

func languageRows(languages []probe.Language) [][]string {
	rows := [][]string{{"LANGUAGE", "PROGRAM", "VERSION"}}
	for _, l := range languages {
		rows = append(rows, []string{l.Name, cmp.Or(l.Program, "not found"), l.Version})
	}
	return rows
}
