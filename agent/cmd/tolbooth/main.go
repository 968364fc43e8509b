// Command tolbooth is the node agent and its command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent"
	"github.com/tolbooth-dev/tolbooth/agent/cli"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args, cli.Options{
		Version:    wire.Build,
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		Getenv:     os.Getenv,
		AgentFlags: agent.Flags(),
		RunAgent:   runAgent,
		Configured: configured,
	}))
}

// runAgent is the agent in the foreground: the first SIGTERM or SIGINT drains it, the second stops it at once.
func runAgent(c *urfave.Context) error {
	config, err := agent.LoadConfig(c)
	if err != nil {
		return err
	}
	config.Version = wire.Build
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return agent.Run(config, signals, os.Stderr)
}

// configured reads the agent's configuration for doctor.
func configured(c *urfave.Context) (cli.Configured, error) {
	config, err := agent.LoadConfig(c)
	return cli.Configured{Backend: string(config.Backend), State: config.State}, err
}
