package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
)

// Exit codes of tolbooth itself. Those of a job's end are in exitcode.go.
const (
	exitFailed = 125 // tolbooth could not do its part
	exitUsage  = 2
)

// Options are what the binary hands in.
type Options struct {
	Version string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Getenv  func(string) string

	// The agent command: its flags, and what runs it. Without RunAgent there is no such command.
	AgentFlags []cli.Flag
	RunAgent   func(*cli.Context) error

	// Configured reads what doctor needs of the agent's configuration, by the flags --config, --backend and --state.
	Configured func(*cli.Context) (Configured, error)
}

// Configured is how the agent of this node is set.
type Configured struct {
	Backend string // jail mode: syd or minimal
	State   string // directory
}

// Main runs the command line args and answers the exit code.
func Main(ctx context.Context, args []string, o Options) int {
	t := &tool{Options: o}
	err := t.app().RunContext(ctx, args)
	if err == nil {
		return 0
	}
	if coder, ok := errors.AsType[*exitError](err); ok {
		if coder.err != nil {
			fmt.Fprintln(o.Stderr, "tolbooth:", coder.err)
		}
		return coder.code
	}
	fmt.Fprintln(o.Stderr, "tolbooth:", err)
	return exitFailed
}

// tool is one invocation.
type tool struct {
	Options
}

func (t *tool) app() *cli.App {
	app := &cli.App{
		Name:            "tolbooth",
		Usage:           "run other people's code in a jail on this node",
		Version:         t.Version,
		HideVersion:     true, // the version command says more
		HideHelpCommand: true,

		DisableSliceFlagSeparator: true, // a comma in a value is part of the value
		Reader:                    t.Stdin,
		Writer:                    t.Stdout,
		ErrWriter:                 t.Stderr,
		ExitErrHandler:            func(*cli.Context, error) {}, // Main prints and decides, once
		OnUsageError:              usageError,
		Action:                    t.noCommand,
		Commands: []*cli.Command{
			t.runCommand(),
			t.psCommand(),
			t.logsCommand(),
			t.showCommand(),
			t.killCommand(),
			t.doctorCommand(),
			t.versionCommand(),
		},
	}
	if t.RunAgent != nil {
		app.Commands = append([]*cli.Command{t.agentCommand()}, app.Commands...)
	}
	for _, c := range app.Commands {
		c.OnUsageError = usageError
	}
	return app
}

func (t *tool) agentCommand() *cli.Command {
	return &cli.Command{
		Name:  "agent",
		Usage: "run the node agent in the foreground",
		Flags: t.AgentFlags,
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usagef("agent takes no argument %q; every setting is a flag, see tolbooth agent --help", c.Args().First())
			}
			return t.RunAgent(c)
		},
	}
}

func (t *tool) noCommand(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("no command %q; see tolbooth --help", c.Args().First())
	}
	return cli.ShowAppHelp(c)
}

// exitError ends the program with a code of its own; err, when not nil, is printed first.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return &exitError{code: exitUsage, err: err}
}

// oneArgument is the only argument of a command, or a usage error that says what it should have been.
func oneArgument(c *cli.Context, what string) (string, error) {
	if c.NArg() != 1 {
		return "", usagef("%s: want exactly one %s, got %d arguments (flags come before it)", c.Command.Name, what, c.NArg())
	}
	return c.Args().First(), nil
}

func noArguments(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("%s: takes no arguments, got %q", c.Command.Name, c.Args().First())
	}
	return nil
}
