package agent

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

func mustPolicy(t testing.TB, c policy.Change) policy.Policy {
	t.Helper()
	p, err := policy.For(runtime.GOARCH, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPolicyAdmission: what a node permits and can do is taken over, in one order; what it cannot is refused by name.
func TestPolicyAdmission(t *testing.T) {
	all := []string{"ptrace", "io_uring", "raw_socket", "userns"}
	with := func(permitted []string, engine jail.Engine, landlock string) *rulebook {
		b := testRules(func(c *Config) { c.Extras = permitted })
		b.node = func() report {
			layers := map[string]api.Layer{"landlock": {Status: landlock, Why: "this kernel has no Landlock", Fix: "use a newer one"}}
			return report{Engine: engine, Modes: map[jail.Mode]modeReport{jail.Syd: {Layers: layers}, jail.Minimal: {Layers: layers}}}
		}
		return b
	}
	for _, c := range []struct {
		name      string
		permitted []string
		engine    jail.Engine
		landlock  string
		body      string
		want      []string // extras and denials, in order; nil: refused
		class     string
	}{
		{"nothing", nil, jail.Ptrace, "ok", `{"command":["x"]}`, []string{}, ""},
		{"permitted", all, jail.Notify, "ok", `{"command":["x"],"policy":{"extras":["raw_socket","ptrace","ptrace"]}}`, []string{"ptrace", "raw_socket"}, ""},
		{"not permitted", []string{"io_uring"}, jail.Notify, "ok", `{"command":["x"],"policy":{"extras":["ptrace"]}}`, nil, "forbidden"},
		{"one tracer", all, jail.Ptrace, "ok", `{"command":["x"],"policy":{"extras":["ptrace"]}}`, nil, "unsupported"},
		{"no broker", all, jail.Ptrace, "ok", `{"command":["x"],"policy":{"extras":["raw_socket"]}}`, nil, "unsupported"},
		{"no filter", all, jail.Notify, "ok", `{"command":["x"],"jail":"minimal","policy":{"extras":["ptrace"]}}`, nil, "unsupported"},
		{"tighter", nil, jail.Ptrace, "ok", `{"command":["x"],"policy":{"deny":["syscall.personality","sockets","execve_outside_base"]}}`, []string{"execve_outside_base", "sockets", "syscall.personality"}, ""},
		{"landlock alone", nil, jail.Ptrace, "ok", `{"command":["x"],"jail":"minimal","policy":{"deny":["execve_outside_base"]}}`, nil, "unsupported"},
		{"no landlock", nil, jail.Ptrace, "missing", `{"command":["x"],"policy":{"deny":["execve_outside_base"]}}`, nil, "unsupported"},
		{"at odds", all, jail.Notify, "ok", `{"command":["x"],"policy":{"extras":["io_uring"],"deny":["sockets"]}}`, nil, "invalid"},
	} {
		w, err := with(c.permitted, c.engine, c.landlock).admit(request(c.body))
		if c.want == nil {
			if p := asProblem(err); p.Class != c.class || p.Field != "policy.extras" && p.Field != "policy.deny" || p.Detail == "" {
				t.Errorf("%s: %v, want %s", c.name, err, c.class)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := append(append([]string{}, w.Policy.Change().Extras...), w.Policy.Change().Deny...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestNodePolicy: every name is listed with a sentence, and what is not available says why.
func TestNodePolicy(t *testing.T) {
	n := nodePolicy([]string{"ptrace"}, jail.Notify)
	if len(n.Extras) != len(policy.Extras()) || len(n.Deny) != len(policy.Denials()) {
		t.Errorf("%+v", n)
	}
	for name, x := range n.Extras {
		if x.What == "" || x.Available == (x.Why != "") || x.Available != (name == "ptrace") {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x := nodePolicy([]string{"ptrace"}, jail.Ptrace).Extras["ptrace"]; x.Available {
		t.Errorf("with one tracer: %+v", x)
	}
}

// TestSpecOfChangedPolicy: what no filter can do goes to the jail by name.
func TestSpecOfChangedPolicy(t *testing.T) {
	s, p := &spine{filters: testFilters}, &place{}
	for _, c := range []struct {
		change           policy.Change
		raw, userns, exe bool
	}{
		{policy.Change{}, false, false, false},
		{policy.Change{Extras: []string{policy.RawSocket}}, true, false, false},
		{policy.Change{Extras: []string{policy.UserNS}}, false, true, false},
		{policy.Change{Deny: []string{policy.DenyExecOutsideBase}}, false, false, true},
	} {
		w := &work{Mode: jail.Syd, Policy: mustPolicy(t, c.change)}
		p.tmpfs = memoryOf(w.Limits)
		spec, err := s.jailSpec(w, p, false, []int{0}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if spec.RawSocket != c.raw || spec.UserNS != c.userns || spec.BaseExecOnly != c.exe || (spec.Landlock == nil) != c.userns || len(spec.Filter) == 0 {
			t.Errorf("%+v: raw %v, userns %v, exec %v, Landlock %v", c.change, spec.RawSocket, spec.UserNS, spec.BaseExecOnly, spec.Landlock)
		}
		held, err := s.jailSpec(w, p, true, []int{0}, nil)
		if err != nil || bytes.Equal(held.Filter, spec.Filter) {
			t.Errorf("%+v: a quota changes nothing of the filter, %v", c.change, err)
		}
		if got := s.isolation(w, jail.Exit{}).Extras; got == nil || !slices.Equal(got, append([]string{}, c.change.Extras...)) {
			t.Errorf("%+v: isolation names %v", c.change, got)
		}
	}
}
