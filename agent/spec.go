package agent

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-json-experiment/json"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

var (
	idPattern        = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	workspacePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	labelPattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)
)

// Bounds of one request.
const (
	maxArgs       = 10_000
	maxLabels     = 64
	maxLabelValue = 256
	maxGlobs      = 100
	maxGlob       = 1024
	maxRules      = 1000
)

// rulebook is what requests are held against.
type rulebook struct {
	cfg       *Config
	languages languages
	lacks     func(jail.Mode) string // why a mode cannot run here; empty: it can
	node      func() report
	usual     policy.Policy // of a request that changes nothing
	ceiling   ceiling
}

// admit checks a request and resolves it into work: every default filled in, nothing left to decide. The caller adds what
// belongs to the job and not to the request: id, stdin, spool. Errors are problems that name the field.
func (b *rulebook) admit(r *api.JobRequest) (*work, error) {
	if r.ID != "" && !idPattern.MatchString(r.ID) {
		return nil, refuse(api.ClassInvalid, "id", "%s does not match [a-z0-9-]{1,63}", quoted(r.ID))
	}
	if err := unsupported(r); err != nil {
		return nil, err
	}
	w := &work{Workspace: r.Workspace, Labels: r.Labels}
	var err error
	if w.Mode, w.MinGrade, err = b.grade(r); err != nil {
		return nil, err
	}
	if w.Policy, err = b.policy(r.Policy, w.Mode); err != nil {
		return nil, err
	}
	if w.Limits, err = b.cfg.resolveLimits(r.Limits); err != nil {
		return nil, err
	}
	if w.Cwd, err = workingDir(r.Cwd); err != nil {
		return nil, err
	}
	if w.Files, err = inputFiles(r.Files, w.Limits); err != nil {
		return nil, err
	}
	if err := b.command(w, r); err != nil {
		return nil, err
	}
	if w.Network, err = b.network(r.Network, w.Mode); err != nil {
		return nil, err
	}
	if err := b.workspace(r.Workspace); err != nil {
		return nil, err
	}
	if w.Outputs, err = outputGlobs(r.Outputs); err != nil {
		return nil, err
	}
	if err := checkStdin(r); err != nil {
		return nil, err
	}
	return w, checkLabels(r.Labels)
}

// unsupported refuses what this build cannot honour. Nothing is dropped.
func unsupported(r *api.JobRequest) error {
	const later = "is not supported by this build"
	switch {
	case r.TTY:
		return refuse(api.ClassUnsupported, "tty", "a terminal "+later)
	case r.Base != "" && r.Base != "host":
		return refuse(api.ClassUnsupported, "base", "base %s %s", quoted(r.Base), later).hint(`the base of this build is "host"`)
	}
	return nil
}

// grade decides the jail mode. A request may ask for more than the node's minimum and never for less.
func (b *rulebook) grade(r *api.JobRequest) (mode jail.Mode, minimum string, err error) {
	mode = b.cfg.Backend
	for _, f := range []struct{ field, value string }{{"jail", r.Jail}, {"min_grade", r.MinGrade}} {
		if f.value != "" && strength(jail.Mode(f.value)) == 0 {
			return "", "", refuse(api.ClassInvalid, f.field, "%s is not one of: syd, minimal", quoted(f.value))
		}
	}
	if r.Jail != "" {
		mode = jail.Mode(r.Jail)
	}
	least := b.cfg.MinimumGrade()
	if strength(mode) < strength(least) {
		return "", "", refuse(api.ClassForbidden, "jail", "%q gives less isolation than this node's minimum %q", mode, least).
			hint(`leave "jail" out; only the operator can lower the minimum`)
	}
	if strength(jail.Mode(r.MinGrade)) > strength(mode) {
		return "", "", refuse(api.ClassUnsupported, "min_grade", "the job would run with grade %q, which is less than %q", mode, r.MinGrade)
	}
	if strength(jail.Mode(r.MinGrade)) > strength(least) {
		least = jail.Mode(r.MinGrade)
	}
	if why := b.lacks(mode); why != "" {
		if r.Jail == "" || mode == b.cfg.Backend {
			return "", "", refuse(api.ClassUnavailable, "", "jail mode %q does not work on this node: %s", mode, why).
				hint("`tolbooth doctor` on the node says what to grant")
		}
		return "", "", refuse(api.ClassUnsupported, "jail", "jail mode %q does not work on this node: %s", mode, why)
	}
	return mode, string(least), nil
}

// command takes over the command, or makes one of a language and its code.
func (b *rulebook) command(w *work, r *api.JobRequest) (err error) {
	var extra map[string]string
	switch {
	case len(r.Command) > 0 && (r.Language != "" || r.Code != ""):
		return refuse(api.ClassInvalid, "command", "a job has either a command or language and code, not both")
	case len(r.Command) > 0:
		if r.Command[0] == "" {
			return refuse(api.ClassInvalid, "command[0]", "is empty; it names the program")
		}
		if len(r.Command) > maxArgs {
			return refuse(api.ClassInvalid, "command", "has %d arguments; at most %d are taken", len(r.Command), maxArgs)
		}
		for i, arg := range r.Command {
			if err := plainText(fmt.Sprintf("command[%d]", i), arg); err != nil {
				return err
			}
		}
		w.Command = r.Command
	case r.Language == "" && r.Code == "":
		return refuse(api.ClassInvalid, "command", "is missing").hint(`give "command", or "language" and "code"`)
	case r.Language == "":
		return refuse(api.ClassInvalid, "language", `is missing; "code" needs it`).hint("languages here: %s", b.languages.names())
	case r.Code == "":
		return refuse(api.ClassInvalid, "code", `is missing; "language" needs it`)
	default:
		var file inputFile
		if w.Command, file, extra, err = b.languages.code(r.Language, r.Code, w.Cwd); err != nil {
			return err
		}
		for i, f := range w.Files {
			if below(f.Path, file.Path) || below(file.Path, f.Path) {
				return refuse(api.ClassInvalid, fmt.Sprintf("files[%d].path", i), "%s is where the code goes", quoted(f.Path))
			}
		}
		w.Files = append(w.Files, file)
	}
	if w.Env, err = environment(cpuCount(w.Limits.CPUs.Value, runtime.NumCPU()), extra, r.Env); err != nil {
		return err
	}
	return checkArguments(w.Command, w.Env)
}

func (b *rulebook) workspace(name string) error {
	switch {
	case name == "":
		return nil
	case !workspacePattern.MatchString(name):
		return refuse(api.ClassInvalid, "workspace", "%s does not match [a-z0-9][a-z0-9._-]{0,62}", quoted(name))
	case !b.cfg.FS.Enabled:
		return refuse(api.ClassUnsupported, "workspace", "named workspaces are off on this node (SANDBOX_FS_ENABLED=false)").
			hint("leave \"workspace\" out for a tree that ends with the job")
	}
	return nil
}

// outputGlobs checks the patterns of outputs and returns them relative to the workspace, the only place that is looked in.
func outputGlobs(globs []string) ([]string, error) {
	if len(globs) > maxGlobs {
		return nil, refuse(api.ClassInvalid, "outputs", "%d patterns; at most %d are taken", len(globs), maxGlobs)
	}
	list := make([]string, 0, len(globs))
	for i, g := range globs {
		field := fmt.Sprintf("outputs[%d]", i)
		full, err := jailPath(field, g)
		if err != nil {
			return nil, err
		}
		if len(g) > maxGlob || !doublestar.ValidatePattern(g) {
			return nil, refuse(api.ClassInvalid, field, "%s is not a pattern such as \"*.png\" or \"out/**\"", quoted(g))
		}
		inside, ok := strings.CutPrefix(full, workspaceDir+"/")
		if !ok {
			return nil, refuse(api.ClassInvalid, field, "%s names nothing in %s, where outputs are looked for", quoted(g), workspaceDir)
		}
		if err := cowfs.CheckPattern(inside); err != nil {
			return nil, refuse(api.ClassInvalid, field, "%s", err)
		}
		list = append(list, inside)
	}
	return list, nil
}

func checkStdin(r *api.JobRequest) error {
	if r.Stdin.Open && r.StdinEncoding != "" {
		return refuse(api.ClassInvalid, "stdin_encoding", "an open stdin carries bytes as they are posted")
	}
	_, err := decodeText("stdin", "stdin_encoding", r.Stdin.Text, r.StdinEncoding)
	return err
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return refuse(api.ClassInvalid, "labels", "%d labels; at most %d are taken", len(labels), maxLabels)
	}
	for name, value := range labels {
		if !labelPattern.MatchString(name) {
			return refuse(api.ClassInvalid, "labels", "%s does not match [A-Za-z0-9][A-Za-z0-9._/-]{0,62}", quoted(name))
		}
		if len(value) > maxLabelValue || strings.ContainsFunc(value, unicode.IsControl) {
			return refuse(api.ClassInvalid, "labels."+name, "is longer than %d bytes or has control characters", maxLabelValue)
		}
	}
	return nil
}

// fingerprint identifies what a request asks for, whether or not its sender waits for the result.
func fingerprint(r api.JobRequest) ([sha256.Size]byte, error) {
	r.Wait = nil
	text, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encode the request: %w", err)
	}
	return sha256.Sum256(text), nil
}
