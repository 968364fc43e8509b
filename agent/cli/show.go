package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

func (t *tool) showCommand() *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show everything known of a job",
		ArgsUsage: "ID",
		Flags:     withCommon(),
		Action:    t.show,
	}
}

func (t *tool) show(c *cli.Context) error {
	agent, id, err := t.connectFor(c)
	if err != nil {
		return err
	}
	job, err := agent.Get(c.Context, id, 0)
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		return t.printJSON(job)
	}
	if err := table(t.Stdout, jobFacts(job)); err != nil {
		return err
	}
	if job.Result != nil {
		writeDenials(t.Stdout, job.Result.Denials, len(job.Result.Denials))
	}
	return nil
}

// jobFacts are the lines of `show`: name and value.
func jobFacts(job *api.Job) [][]string {
	rows := [][]string{
		{"id", job.ID},
		{"state", string(job.State)},
		{"created", job.CreatedAt.Local().Format(time.RFC3339)},
	}
	if job.FinishedAt != nil {
		rows = append(rows, []string{"finished", job.FinishedAt.Local().Format(time.RFC3339)})
	}
	if len(job.Labels) > 0 {
		rows = append(rows, []string{"labels", labelText(job.Labels)})
	}
	if job.Result != nil {
		rows = append(rows, resultFacts(job.Result)...)
	}
	return rows
}

// limitsText names each limit, and who set those that are no defaults.
func limitsText(limits []api.Limit) string {
	var texts []string
	for _, l := range limits {
		text := l.Name + " " + l.Value
		if l.SetBy != "default" {
			text += " (" + l.SetBy + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

func resultFacts(r *api.Result) [][]string {
	rows := [][]string{{"outcome", string(r.Outcome)}}
	if r.ExitCode != nil {
		rows = append(rows, []string{"exit code", strconv.Itoa(*r.ExitCode)})
	}
	if text := endText(r); text != "" {
		rows = append(rows, []string{"end", text})
	}
	u, tm := r.Usage, r.Timings
	rows = append(rows,
		[]string{"isolation", fmt.Sprintf("mode %s, grade %s: %s", r.Isolation.Mode, r.Isolation.Grade, strings.Join(r.Isolation.Layers, " "))})
	if len(r.Isolation.Missing) > 0 {
		rows = append(rows, []string{"missing", strings.Join(r.Isolation.Missing, " ")})
	}
	if len(r.Isolation.Extras) > 0 {
		rows = append(rows, []string{"extras", strings.Join(r.Isolation.Extras, " ")})
	}
	if e := r.Effective; e != nil {
		rows = append(rows, []string{"limits", limitsText(e.Limits)}, []string{"variables", strings.Join(e.Env, " ")})
	}
	rows = append(rows,
		[]string{"printed", fmt.Sprintf("%s on stdout, %s on stderr", size(r.StdoutBytes), size(r.StderrBytes))},
		[]string{"used", fmt.Sprintf("%d ms wall, %d ms CPU, %s memory at most, %d tasks at most, %s disk", u.WallMS, u.CPUMS, size(u.MemoryPeakBytes), u.PidsPeak, size(u.DiskBytes))},
		[]string{"network", fmt.Sprintf("%s sent, %s received", size(u.NetTxBytes), size(u.NetRxBytes))},
		[]string{"steps", fmt.Sprintf("queue %s, workspace %s, network %s, jail %s, run %s, flush %s",
			micros(tm.Queue), micros(tm.Workspace), micros(tm.Network), micros(tm.Jail), micros(tm.Run), micros(tm.Flush))},
	)
	if u.OrphansKilled > 0 {
		rows = append(rows, []string{"left over", plural(int(u.OrphansKilled), "process") + " still running at the end, killed"})
	}
	if r.Snapshot != nil {
		rows = append(rows, []string{"snapshot", *r.Snapshot})
	}
	for _, o := range r.Outputs {
		text := fmt.Sprintf("%s (%s)", o.Path, size(o.Bytes))
		if o.Omitted != "" {
			text += ", not returned: " + o.Omitted
		}
		rows = append(rows, []string{"output", text})
	}
	return rows
}

func micros(us int64) string {
	return (time.Duration(us) * time.Microsecond).Round(10 * time.Microsecond).String()
}
