package hostile

import (
	"bytes"
	"embed"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

//go:embed *.py testdata/*.c
var programs embed.FS

func TestMain(m *testing.M) { hosttest.Main(m) }

// attack is one hostile program and what must be true of its result. The expectation is that of syd. Minimal has no
// filter, so there the kernel may run a call that syd refuses, but it must come to nothing ("ran"), save for those in weak;
// and it names no rules, since nothing there sees a refused call.
type attack struct {
	id      string
	file    string
	held    int         // at least this many attempts must be reported
	rules   []string    // rules that the result's denials must name
	outcome api.Outcome // default ok
	stdin   string
	limits  api.Limits
	limit   string        // result.limit.name
	within  time.Duration // the result must be there this fast (stretched on slow machines)
	weak    []string      // names of attempts (path.Match, space and / count as letters) that succeed in minimal, as is known
	alone   bool          // takes the node's time or its memory: the oracle is asked after it alone
	sydOnly string        // why there is nothing to try in minimal
}

// chapters are the tables of attacks_*_test.go.
var chapters = []struct {
	name    string
	attacks []attack
}{{"A", attacksA}, {"B", attacksB}, {"C", attacksC}, {"E", attacksE}, {"F", attacksF}}

// mode is one way to run a jail.
type mode struct {
	name, jail string
	explainer  string // engine that names refused calls
}

var modes = []mode{{"syd-notify", "syd", "notify"}, {"syd-ptrace", "syd", "ptrace"}, {"minimal", "minimal", "auto"}}

// TestAttacks runs every program in every mode. Programs of a chapter that take little run side by side, which only makes
// it harder for the jail, and share the look at what is left behind; what they may have reached is asked after each. The
// others run alone, each with the whole oracle.
func TestAttacks(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			o := plantSecrets(t)
			o.Env["TOLBOOTH_EXPLAINER"] = m.explainer
			a := harness.Start(t, o)
			seer := newOracle(t, a)
			for _, c := range chapters {
				t.Run(c.name, func(t *testing.T) { chapter(t, seer, m, c.attacks) })
			}
		})
	}
}

// plantSecrets are options of an agent with secrets wherever an agent has them: its environment, its arguments, its configuration,
// its state directory, and files where the platform puts credentials. f01_secrets.py looks for them.
func plantSecrets(t *testing.T) harness.Options {
	t.Helper()
	const secret = "agent-secret-planted"
	credentials, err := os.MkdirTemp("/run", "hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(credentials) })
	state, config := t.TempDir(), filepath.Join(t.TempDir(), secret+".yaml")
	for name, text := range map[string]string{
		config: "# " + secret + "\n", filepath.Join(credentials, "token"): secret, filepath.Join(state, "of-the-operator"): secret,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { // for everybody to read, if only they get there
			t.Fatal(err)
		}
	}
	return harness.Options{State: state, Args: []string{"--config", config}, Env: map[string]string{
		"AGENT_SECRET": secret, "SIDECAR_AUTH_TOKEN": strings.Repeat(secret, 2), "AWS_SECRET_ACCESS_KEY": secret,
		"AWS_WEB_IDENTITY_TOKEN_FILE": filepath.Join(credentials, "token"),
	}}
}

func chapter(t *testing.T, o *oracle, m mode, attacks []attack) {
	t.Run("together", func(t *testing.T) {
		for _, at := range attacks {
			if at.alone || m.jail == "minimal" && at.sydOnly != "" {
				continue
			}
			t.Run(at.name(), func(t *testing.T) {
				t.Parallel()
				o.reached(t, at.run(t, o.agent, m))
			})
		}
	})
	o.left(t)
	for _, at := range attacks {
		if !at.alone || m.jail == "minimal" && at.sydOnly != "" {
			continue
		}
		t.Run(at.name(), func(t *testing.T) {
			o.reached(t, at.run(t, o.agent, m))
			o.left(t)
		})
	}
}

func (at attack) name() string {
	return at.id + "_" + strings.TrimSuffix(path.Base(at.file), path.Ext(at.file))
}

// run runs the program and checks its result.
func (at attack) run(t *testing.T, a *harness.Agent, m mode) *api.Result {
	t.Helper()
	req := request(t, at)
	req.Jail, req.MinGrade = m.jail, m.jail
	start := time.Now()
	res := a.Run(req)
	at.check(t, m, res, time.Since(start))
	return res
}

// request is the job of one program: Python source with the shared prelude, or C compiled on the host, since a compiler
// in the jail is not what is tested here.
func request(t *testing.T, at attack) api.JobRequest {
	t.Helper()
	src, err := programs.ReadFile(at.file)
	if err != nil {
		t.Fatal(err)
	}
	req := api.JobRequest{Limits: at.limits, Stdin: api.Stdin{Text: at.stdin}}
	if strings.HasSuffix(at.file, ".c") {
		req.Command = []string{"./attack"}
		req.Files = []api.File{{Path: "attack", Content: compile(t, src), Encoding: "base64", Mode: "0755"}}
		return req
	}
	prelude, err := programs.ReadFile("prelude.py")
	if err != nil {
		t.Fatal(err)
	}
	req.Command = []string{"python3", "-u", "attack.py"}
	req.Files = []api.File{{Path: "attack.py", Content: string(prelude) + "\n" + string(src)}}
	return req
}

func (at attack) check(t *testing.T, m mode, res *api.Result, took time.Duration) {
	t.Helper()
	want := at.outcome
	if want == "" {
		want = api.OutcomeOK
	}
	if res.Outcome != want {
		t.Errorf("outcome %s (%s), want %s\n%s\n%s", res.Outcome, res.Detail, want, tail(res.Stdout), tail(res.Stderr))
	}
	at.checkAttempts(t, m, res)
	if m.jail == "syd" {
		checkRules(t, at.rules, res.Denials)
	}
	if at.limit != "" && (res.Limit == nil || res.Limit.Name != at.limit || res.Limit.Value == "" || res.Limit.SetBy == "") {
		t.Errorf("limit %+v, want %s with value and set_by", res.Limit, at.limit)
	}
	if at.limit == "output" && !res.Truncated {
		t.Error("output limit without truncated")
	}
	if limit := time.Duration(float64(at.within) * harness.Slow.Seconds()); limit > 0 && took > limit {
		t.Errorf("took %s, want at most %s", took, limit)
	}
	if res.Isolation.Grade != m.jail { // a weaker jail says so
		t.Errorf("isolation %+v, want grade %s", res.Isolation, m.jail)
	}
}

// checkAttempts reads the program's report.
func (at attack) checkAttempts(t *testing.T, m mode, res *api.Result) {
	t.Helper()
	reported, refused := 0, int64(0)
	for line := range strings.Lines(res.Stdout) {
		verdict, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		minimal := m.jail == "minimal"
		switch {
		case verdict == "refused":
			refused++
			reported++
		case verdict == "held", verdict == "ran" && minimal, verdict == "ESCAPED" && minimal && at.isWeak(rest):
			reported++
		case verdict == "ran", verdict == "ESCAPED":
			t.Errorf("%s", line)
		}
	}
	if reported < at.held {
		t.Errorf("%d attempts were reported, want at least %d\n%s\n%s", reported, at.held, res.Stdout, res.Stderr)
	}
	named := int64(0)
	for _, d := range res.Denials {
		if d.Layer == "syscall" {
			named += d.Count
		}
	}
	if m.jail == "syd" && named < refused {
		t.Errorf("%d calls were refused, denials count %d: %+v\n%s", refused, named, res.Denials, res.Stdout)
	}
}

// isWeak says whether a report ("NAME DETAIL") is of an attempt that is known to succeed in minimal.
func (at attack) isWeak(report string) bool {
	return slices.ContainsFunc(at.weak, func(pattern string) bool {
		ok, err := path.Match(pattern+" *", strings.ReplaceAll(report, "/", "|"))
		return ok && err == nil
	})
}

func checkRules(t *testing.T, rules []string, denials []api.Denial) {
	t.Helper()
	for _, rule := range rules {
		i := slices.IndexFunc(denials, func(d api.Denial) bool { return d.Rule == rule })
		if i < 0 {
			t.Errorf("no denial names rule %s: %+v", rule, denials)
			continue
		}
		if d := denials[i]; d.What == "" || d.Errno == "" || d.Why == "" {
			t.Errorf("denial does not explain itself: %+v", d)
		}
	}
}

// compile builds a static program on the host and returns it in base64.
func compile(t *testing.T, src []byte) string {
	t.Helper()
	hosttest.Program(t, "gcc")
	out := t.TempDir() + "/attack"
	cmd := exec.Command("gcc", "-x", "c", "-O1", "-static", "-pthread", "-o", out, "-")
	cmd.Stdin = bytes.NewReader(src)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, b)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return encode(b)
}

func tail(s string) string {
	if len(s) > 2000 {
		return "…" + s[len(s)-2000:]
	}
	return s
}
