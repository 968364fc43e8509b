package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// maxDenials bounds the summary at a job's end; `tolbooth show` lists all.
const maxDenials = 10

// explainEnd says on standard error what the exit code alone does not: limits, refusals, what could not be returned.
func (t *tool) explainEnd(job *api.Job) {
	r := job.Result
	if text := endText(r); text != "" {
		fmt.Fprintln(t.Stderr, "tolbooth:", text)
	}
	ends, refused := splitDenials(r)
	for _, d := range ends {
		if d.Layer == "signal" { // the first line has named a limit with its value
			fmt.Fprintf(t.Stderr, "  %s\n  why: %s\n", clean(d.What), clean(d.Why))
		}
		fmt.Fprintf(t.Stderr, "  fix: %s\n", fixText(d.Fix))
	}
	if r.Truncated {
		fmt.Fprintf(t.Stderr, "tolbooth: output cut: the program printed %d bytes on stdout, %d on stderr; raise it with --output-limit\n", r.StdoutBytes, r.StderrBytes)
	}
	for _, o := range r.Outputs {
		if o.Omitted != "" {
			fmt.Fprintf(t.Stderr, "tolbooth: %s (%d bytes) is not returned: %s\n", clean(o.Path), o.Bytes, clean(o.Omitted))
		}
	}
	writeDenials(t.Stderr, refused, maxDenials)
	if left := len(refused) - maxDenials; left > 0 {
		fmt.Fprintf(t.Stderr, "  … and %d more: tolbooth show %s\n", left, job.ID)
	}
}

// splitDenials sets apart what ended the job, a limit or a signal: the first line about the end names it already.
func splitDenials(r *api.Result) (ends, rest []api.Denial) {
	for _, d := range r.Denials {
		limit := r.Limit != nil && d.Layer == "limit" && d.Rule == "limit."+r.Limit.Name
		if limit || r.Outcome == api.OutcomeSignal && d.Layer == "signal" {
			ends = append(ends, d)
		} else {
			rest = append(rest, d)
		}
	}
	return ends, rest
}

// endText says in words how a job ended, as far as its exit code does not, and what else went wrong with it: a flush
// that failed is in the detail of a job that was fine.
func endText(r *api.Result) string {
	var text string
	switch r.Outcome {
	case api.OutcomeOK, api.OutcomeExit:
		return clean(r.Detail)
	case api.OutcomeSignal:
		text = "ended by a signal"
		if r.Signal != nil {
			text = "ended by " + clean(*r.Signal)
		}
	default:
		text = strings.ReplaceAll(clean(string(r.Outcome)), "_", " ")
	}
	switch l := r.Limit; {
	case r.Detail != "":
		text += ": " + clean(r.Detail)
	case l != nil:
		text += fmt.Sprintf(": %s, set by the %s", clean(l.Value), clean(l.SetBy))
	}
	return text
}

// writeDenials lists up to limit refusals, each with its rule, its reason and what would allow it. Neighbours that agree in
// all of that share one explanation.
func writeDenials(w io.Writer, denials []api.Denial, limit int) {
	if len(denials) == 0 {
		return
	}
	fmt.Fprintf(w, "tolbooth: refused: %s\n", plural(len(denials), "attempt"))
	listed := denials[:min(len(denials), limit)]
	for i, d := range listed {
		fmt.Fprintf(w, "  %s%s: %s rule %s%s\n", clean(d.What), by(d), effect(d), clean(d.Rule), source(d))
		if i+1 < len(listed) && sameWords(d, listed[i+1]) {
			continue
		}
		if d.Why != "" {
			fmt.Fprintf(w, "    why: %s\n", clean(d.Why))
		}
		fmt.Fprintf(w, "    fix: %s\n", fixText(d.Fix))
	}
}

// effect is what the program met.
func effect(d api.Denial) string {
	switch {
	case d.Layer == "signal":
		return "killed," // no call was there to fail
	case d.Errno == "" && d.Layer == "network":
		return "dropped by" // a packet
	case d.Errno == "":
		return "by"
	}
	return clean(d.Errno) + " by"
}

// source marks what only the program's own message says.
func source(d api.Denial) string {
	if d.Evidence == "output" {
		return " (by the program's own message)"
	}
	return ""
}

func sameWords(a, b api.Denial) bool {
	return a.Rule == b.Rule && a.Why == b.Why && string(a.Fix) == string(b.Fix)
}

func by(d api.Denial) string {
	text := ""
	if d.Program != "" {
		text = " by " + clean(d.Program)
	}
	if d.Count > 1 {
		text += fmt.Sprintf(", %d times", d.Count)
	}
	return text
}

// fixText turns a denial's merge patch into what one types.
func fixText(fix []byte) string {
	if len(fix) == 0 || string(fix) == "null" {
		return "none"
	}
	var patch map[string]map[string]any
	if err := json.Unmarshal(fix, &patch); err == nil {
		if flags, ok := fixFlags(patch); ok {
			return "run with " + flags
		}
	}
	return "add to the request: " + clean(string(fix))
}

// fixFlags is a patch as flags of `tolbooth run`, if there is a flag for everything in it.
func fixFlags(patch map[string]map[string]any) (string, bool) {
	var flags []string
	for _, key := range []string{"network", "limits"} {
		section := patch[key]
		delete(patch, key)
		for _, name := range sortedKeys(section) {
			words, ok := fixFlag(key, name, section[name])
			if !ok {
				return "", false
			}
			flags = append(flags, words...)
		}
	}
	return strings.Join(flags, " "), len(patch) == 0 && len(flags) > 0
}

func fixFlag(section, name string, value any) ([]string, bool) {
	switch list, isList := value.([]any); {
	case section == "network" && name == "mode":
		if value == "allow" {
			return nil, true // --allow says it
		}
		return []string{"--net " + quote(value)}, true
	case section == "network" && name == "allow" && isList:
		var words []string
		for _, rule := range list {
			words = append(words, "--allow "+quote(rule))
		}
		return words, true
	case section == "limits":
		for _, l := range limitNames {
			if l.name == name {
				return []string{"--" + l.flag + " " + quote(value)}, true
			}
		}
	}
	return nil, false
}
