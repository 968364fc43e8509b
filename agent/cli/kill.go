package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

func (t *tool) killCommand() *cli.Command {
	return &cli.Command{
		Name:      "kill",
		Usage:     "cancel a job (TERM, a grace time, KILL of everything in it), or send it a signal",
		ArgsUsage: "ID",
		Flags: withCommon(
			&cli.StringFlag{Name: "signal", Aliases: []string{"s"}, Usage: "only send `SIGNAL`, such as SIGUSR1, and leave it running"},
		),
		Action: t.kill,
	}
}

func (t *tool) kill(c *cli.Context) error {
	agent, id, err := t.connectFor(c)
	if err != nil {
		return err
	}
	if name := c.String("signal"); name != "" {
		return agent.Signal(c.Context, id, signalName(name))
	}
	job, err := agent.Cancel(c.Context, id)
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		return t.printJSON(job)
	}
	if job.Result != nil {
		_, err = fmt.Fprintf(t.Stdout, "%s %s\n", job.ID, job.Result.Outcome)
	}
	return err
}

// signalName takes TERM for SIGTERM, as kill(1) does.
func signalName(name string) string {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	return name
}
