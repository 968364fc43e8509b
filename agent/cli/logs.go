package cli

import (
	"github.com/urfave/cli/v2"
)

func (t *tool) logsCommand() *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print what a job printed",
		ArgsUsage: "ID",
		Flags: withCommon(
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "stay until the job ends"},
		),
		Action: t.logs,
	}
}

// logs prints a job's output from its start. With --json it prints the events themselves, one a line.
func (t *tool) logs(c *cli.Context) error {
	agent, id, err := t.connectFor(c)
	if err != nil {
		return err
	}
	events := agent.Recorded(c.Context, id, 0)
	if c.Bool("follow") {
		events = agent.Events(c.Context, id, 0)
	}
	if c.Bool(flagJSON) {
		return each(events, t.printEvent)
	}
	return each(events, t.printOutput)
}
