package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
)

func (t *tool) psCommand() *cli.Command {
	return &cli.Command{
		Name:  "ps",
		Usage: "list jobs, newest first",
		Flags: withCommon(
			&cli.StringFlag{Name: "state", Usage: "only jobs in `STATE`: queued, starting, running or finished"},
			&cli.StringFlag{Name: "label", Aliases: []string{"l"}, Usage: "only jobs with label `NAME=VALUE`"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Value: 50, Usage: "at most `N` jobs"},
		),
		Action: t.ps,
	}
}

func (t *tool) ps(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	agent, err := t.connect(c)
	if err != nil {
		return err
	}
	jobs, err := t.list(c, agent)
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		return t.printJSON(jobs)
	}
	rows := [][]string{{"ID", "STATE", "OUTCOME", "EXIT", "AGE", "WALL", "LABELS"}}
	for _, job := range jobs.Items {
		rows = append(rows, jobRow(job, time.Now()))
	}
	if err := table(t.Stdout, rows); err != nil {
		return err
	}
	if jobs.NextCursor != nil {
		fmt.Fprintln(t.Stderr, "tolbooth: there are more; raise --limit")
	}
	return nil
}

// list collects pages until the limit asked for is reached.
func (t *tool) list(c *cli.Context, agent *client.Client) (*api.List[api.Job], error) {
	limit := c.Int("limit")
	if limit < 1 {
		return nil, usagef("ps: --limit: want at least 1")
	}
	options := client.ListOptions{State: api.State(c.String("state")), Label: strings.Replace(c.String("label"), "=", ":", 1)}
	all := &api.List[api.Job]{Items: []api.Job{}}
	for {
		options.Limit = min(limit-len(all.Items), 100)
		page, err := agent.List(c.Context, options)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, page.Items...)
		all.NextCursor = page.NextCursor
		if page.NextCursor == nil || len(all.Items) >= limit || len(page.Items) == 0 {
			return all, nil
		}
		options.Cursor = *page.NextCursor
	}
}

func jobRow(job api.Job, now time.Time) []string {
	row := []string{job.ID, string(job.State), "", "", roughly(now.Sub(job.CreatedAt)), "", labelText(job.Labels)}
	if r := job.Result; r != nil {
		row[2] = string(r.Outcome)
		if r.ExitCode != nil {
			row[3] = strconv.Itoa(*r.ExitCode)
		}
		row[5] = roughly(time.Duration(r.Usage.WallMS) * time.Millisecond)
	}
	return row
}

func labelText(labels map[string]string) string {
	var words []string
	for _, name := range sortedKeys(labels) {
		words = append(words, name+"="+labels[name])
	}
	return strings.Join(words, " ")
}
