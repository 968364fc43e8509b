package cli

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
)

// versions is the JSON of `tolbooth version`.
type versions struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Agent    string `json:"agent,omitzero"` // of the agent asked, when one was named
}

func (t *tool) versionCommand() *cli.Command {
	return &cli.Command{
		Name:   "version",
		Usage:  "print this program's version, and the agent's when --socket, --url or SANDBOX_MANAGER_URL names one",
		Flags:  withCommon(),
		Action: t.version,
	}
}

func (t *tool) version(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	v := versions{Version: t.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if c.IsSet(flagURL) || c.IsSet(flagSocket) || t.Getenv("SANDBOX_MANAGER_URL") != "" {
		agent, err := t.connect(c)
		if err != nil {
			return err
		}
		health, err := agent.Health(c.Context)
		if err != nil {
			return err
		}
		v.Agent = health.Version
	}
	if c.Bool(flagJSON) {
		return t.printJSON(v)
	}
	fmt.Fprintf(t.Stdout, "tolbooth %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	if v.Agent != "" {
		fmt.Fprintf(t.Stdout, "agent    %s\n", clean(v.Agent))
	}
	return nil
}
