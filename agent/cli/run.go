package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
)

func (t *tool) runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run one command, or one piece of source code, in a fresh jail",
		ArgsUsage: "-- CMD [ARG…]  |  --lang LANGUAGE FILE  |  --lang LANGUAGE -",
		Description: "The job's output streams as it comes; what was refused is summed up on standard error, with the fix.\n" +
			"Ctrl-C cancels the job, a second one leaves at once.\n\n" + exitCodesHelp,
		Flags: withCommon(append(requestFlags(),
			&cli.StringFlag{Name: "output-dir", Usage: "write files returned by --output below `DIRECTORY`"},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "print the job's id and leave it running"},
			&cli.IntFlag{Name: "retry", Usage: "send the job up to `N` more times while the agent says it is full or draining"},
		)...),
		Action: t.run,
	}
}

// run posts a job and stays with it to its end.
func (t *tool) run(c *cli.Context) error {
	request, err := t.request(c)
	if err != nil {
		return err
	}
	agent, err := t.connect(c)
	if err != nil {
		return err
	}
	job, err := agent.Retrying(1+c.Int("retry")).Start(c.Context, request)
	if err != nil {
		return err
	}
	if c.Bool("detach") {
		return t.printJob(c, job)
	}
	id := job.ID
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe is an error, not the end
	defer t.cancelOnSignal(c.Context, agent, id)()
	if request.Stdin.Open {
		feeding, cancel := context.WithCancel(c.Context)
		defer cancel()
		go t.feed(feeding, agent, id)
	}
	show := t.printOutput
	if c.Bool(flagJSON) {
		show = func(api.Event) error { return nil } // the events are only followed, past broken connections, to the end
	}
	if err := each(agent.Events(c.Context, id, 0), show); err != nil {
		return t.stopped(c, agent, id, err)
	}
	if job, err = agent.Wait(c.Context, id); err != nil {
		return fmt.Errorf("%w; the job itself may go on: tolbooth show %s", err, id)
	}
	return t.ended(c, job)
}

// stopped answers for a job that could not be followed to its end. When nobody reads the output any more, as after
// `| head`, nobody wants the job either.
func (t *tool) stopped(c *cli.Context, agent *client.Client, id string, err error) error {
	if !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w; the job itself may go on: tolbooth logs -f %s", err, id)
	}
	if _, err := agent.Cancel(c.Context, id); err != nil {
		return err
	}
	return &exitError{code: exitBrokenPipe}
}

// printJob tells of a job that was only started.
func (t *tool) printJob(c *cli.Context, job *api.Job) error {
	if c.Bool(flagJSON) {
		return t.printJSON(job)
	}
	_, err := fmt.Fprintln(t.Stdout, job.ID)
	return err
}

// ended tells how a job ended, and answers its exit code as an error.
func (t *tool) ended(c *cli.Context, job *api.Job) error {
	if job.Result == nil {
		return fmt.Errorf("job %s is finished but has no result", job.ID)
	}
	if c.Bool(flagJSON) {
		if err := t.printJSON(job); err != nil {
			return err
		}
	} else {
		t.explainEnd(job)
	}
	if dir := c.String("output-dir"); dir != "" {
		if err := t.writeOutputs(dir, job.Result.Outputs); err != nil {
			return err
		}
	}
	if code := exitCode(job.Result); code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// feed passes standard input on. A job that ends first refuses the rest, which is no fault.
func (t *tool) feed(ctx context.Context, agent *client.Client, id string) {
	err := agent.Stdin(ctx, id, t.Stdin, true)
	if err == nil || ctx.Err() != nil || client.Class(err) == api.ClassConflict {
		return
	}
	fmt.Fprintln(t.Stderr, "tolbooth: standard input is lost to the job:", err)
}

// cancelOnSignal cancels the job at the first SIGINT or SIGTERM. The second has its default effect: this program ends
// at once, whatever it is doing.
func (t *tool) cancelOnSignal(ctx context.Context, agent *client.Client, id string) (stop func()) {
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case <-done:
			return
		case <-signals:
		}
		signal.Stop(signals)
		fmt.Fprintln(t.Stderr, "tolbooth: cancelling the job; again to leave at once")
		if _, err := agent.Cancel(ctx, id); err != nil {
			fmt.Fprintln(t.Stderr, "tolbooth: cancel:", err)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
