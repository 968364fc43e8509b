package cli

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/client"
)

// defaultSocket is where the agent of this node listens unless told otherwise.
const defaultSocket = "/run/tolbooth/tolbooth.sock"

// Flags that every command takes.
const (
	flagJSON   = "json"
	flagURL    = "url"
	flagSocket = "socket"
	flagToken  = "token"
)

// withCommon adds the flags that every command takes to a command's own.
func withCommon(own ...cli.Flag) []cli.Flag {
	return append(own,
		&cli.BoolFlag{Name: flagJSON, Usage: "print JSON instead of text"},
		&cli.StringFlag{Name: flagURL, Usage: "agent at `URL`, unix:///path or http(s)://host:port (environment: SANDBOX_MANAGER_URL)"},
		&cli.StringFlag{Name: flagSocket, Usage: "agent at unix socket `PATH` (default: " + defaultSocket + ")"},
		&cli.StringFlag{Name: flagToken, Usage: "bearer `TOKEN` of an agent on TCP; other users see it here but not in the environment: SANDBOX_REMOTE_AUTH_TOKEN"},
	)
}

// connect makes the client that the flags ask for: --socket or --url, else what SANDBOX_MANAGER_URL says, else this
// node's own socket.
func (t *tool) connect(c *cli.Context) (*client.Client, error) {
	url, socket := c.String(flagURL), c.String(flagSocket)
	switch {
	case socket != "" && url != "":
		return nil, usagef("--socket and --url: give one of them")
	case socket != "":
		url = "unix://" + socket
	case url == "":
		url = cmp.Or(t.Getenv("SANDBOX_MANAGER_URL"), "unix://"+defaultSocket)
	}
	return client.New(url, cmp.Or(c.String(flagToken), t.Getenv("SANDBOX_REMOTE_AUTH_TOKEN"))), nil
}

// connectFor makes the client for a command about one job, and returns the job's id.
func (t *tool) connectFor(c *cli.Context) (*client.Client, string, error) {
	id, err := oneArgument(c, "job id")
	if err != nil {
		return nil, "", err
	}
	agent, err := t.connect(c)
	return agent, id, err
}

// printJSON prints v for programs: one document, indented, with a final newline.
func (t *tool) printJSON(v any) error {
	b, err := json.Marshal(v, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = fmt.Fprintf(t.Stdout, "%s\n", b)
	return err
}
