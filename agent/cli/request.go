package cli

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// requestFlags has a flag for every field of a job request that this version carries out.
func requestFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "id", Usage: "`ID` of the job; the same id again answers the same job"},
		&cli.StringFlag{Name: "lang", Usage: "run a file of source code in `LANGUAGE` instead of a command: tolbooth run --lang python FILE (- is standard input)"},
		&cli.StringSliceFlag{Name: "file", Usage: "put `LOCAL[:DEST]` into the workspace first (repeatable)"},
		&cli.BoolFlag{Name: "stdin", Aliases: []string{"i"}, Usage: "pass standard input on, as it comes (default: the job's is empty)"},
		&cli.StringFlag{Name: "stdin-text", Usage: "`TEXT` as the job's standard input"},
		&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` (repeatable)"},
		&cli.StringFlag{Name: "cwd", Usage: "working `DIRECTORY`, relative to /workspace"},
		&cli.StringFlag{Name: "base", Usage: "root file system to start from: `BASE` (host)"},
		&cli.StringFlag{Name: "jail", Usage: "jail `MODE`: syd or minimal (default: the node's)"},
		&cli.StringFlag{Name: "min-grade", Usage: "refuse to run with less isolation than `GRADE`"},
		&cli.StringFlag{Name: "workspace", Aliases: []string{"w"}, Usage: "keep files in workspace `NAME` (default: none are kept)"},
		&cli.StringSliceFlag{Name: "output", Aliases: []string{"o"}, Usage: "return files that match `GLOB` in the workspace (repeatable)"},
		&cli.StringSliceFlag{Name: "limit", Usage: "set limit `NAME=VALUE` (repeatable); each limit is a flag of its own too"},
		&cli.StringFlag{Name: "net", Usage: "network `MODE`: none, allow or open (default: none, or allow with --allow)"},
		&cli.StringSliceFlag{Name: "allow", Usage: "allow connections to `RULE`, such as 10.1.2.0/24:5432/tcp (repeatable)"},
		&cli.StringSliceFlag{Name: "deny", Usage: "deny connections to `RULE`; outranks --allow (repeatable)"},
		&cli.StringFlag{Name: "net-rate", Usage: "hold the network to `RATE` bits per second in each direction, such as 20M"},
		&cli.StringFlag{Name: "net-budget", Usage: "end the job's connections after `BYTES` sent and received, such as 200Mi"},
		&cli.StringSliceFlag{Name: "extra", Usage: "ask for the permission `NAME` (ptrace, io_uring, raw_socket, userns), which the node must offer (repeatable)"},
		&cli.StringSliceFlag{Name: "forbid", Usage: "take `NAME` away from the job: processes, sockets, execve_outside_base, or syscall.CALL (repeatable)"},
		&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "label the job `NAME=VALUE` (repeatable)"},
	}
	for _, l := range limitNames {
		flags = append(flags, &cli.StringFlag{Name: l.flag, Usage: "limit: " + l.usage, Category: "LIMITS"})
	}
	return flags
}

// request makes the job request that the flags and arguments describe.
func (t *tool) request(c *cli.Context) (api.JobRequest, error) {
	r := api.JobRequest{
		ID:        c.String("id"),
		Cwd:       c.String("cwd"),
		Base:      c.String("base"),
		Jail:      c.String("jail"),
		MinGrade:  c.String("min-grade"),
		Workspace: c.String("workspace"),
		Outputs:   c.StringSlice("output"),
		Network: api.Network{
			Mode:  c.String("net"),
			Allow: c.StringSlice("allow"),
			Deny:  c.StringSlice("deny"),
		},
		Policy: api.Policy{Extras: c.StringSlice("extra"), Deny: c.StringSlice("forbid")},
	}
	if r.Network.Mode == "" && len(r.Network.Allow) > 0 {
		r.Network.Mode = "allow"
	}
	var err error
	if r.Network.Rate, err = quantityOf(c, "net-rate"); err != nil {
		return r, err
	}
	if r.Network.Budget, err = quantityOf(c, "net-budget"); err != nil {
		return r, err
	}
	if r.Env, err = pairs("env", c.StringSlice("env")); err != nil {
		return r, err
	}
	if r.Labels, err = pairs("label", c.StringSlice("label")); err != nil {
		return r, err
	}
	if r.Files, err = localFiles(c.StringSlice("file")); err != nil {
		return r, err
	}
	if r.Limits, err = limitsOf(c); err != nil {
		return r, err
	}
	if err := t.program(c, &r); err != nil {
		return r, err
	}
	return r, t.stdinOf(c, &r)
}

// program fills in what runs: a command, or source code from a file or from standard input.
func (t *tool) program(c *cli.Context, r *api.JobRequest) error {
	if r.Language = c.String("lang"); r.Language == "" {
		r.Command = c.Args().Slice()
		if len(r.Command) == 0 {
			return usagef("run: nothing to run; tolbooth run -- CMD ARG…, or tolbooth run --lang LANGUAGE FILE")
		}
		return nil
	}
	name, err := oneArgument(c, "source file")
	if err != nil {
		return err
	}
	if name != "-" {
		code, err := readLocal(name)
		r.Code = string(code)
		return err
	}
	if c.Bool("stdin") {
		return usagef("run: standard input is the source code, so --stdin has nothing left to pass on")
	}
	code, err := readBounded(t.Stdin, "standard input")
	r.Code = string(code)
	return err
}

func (t *tool) stdinOf(c *cli.Context, r *api.JobRequest) error {
	if !c.Bool("stdin") {
		r.Stdin = api.Stdin{Text: c.String("stdin-text")}
		return nil
	}
	if c.IsSet("stdin-text") {
		return usagef("run: --stdin and --stdin-text: give one of them")
	}
	if c.Bool("detach") {
		return usagef("run: --stdin needs this program to stay; leave out --detach")
	}
	r.Stdin = api.Stdin{Open: true}
	return nil
}

// pairs splits NAME=VALUE arguments.
func pairs(flag string, args []string) (map[string]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(args))
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, usagef("--%s %q: want NAME=VALUE", flag, arg)
		}
		m[name] = value
	}
	return m, nil
}

// quantityOf reads a flag such as 20M; 0 when it is not given.
func quantityOf(c *cli.Context, name string) (api.Quantity, error) {
	if !c.IsSet(name) {
		return 0, nil
	}
	q, err := api.ParseQuantity(c.String(name))
	if err != nil {
		return 0, usagef("--%s: %w", name, err)
	}
	return q, nil
}
