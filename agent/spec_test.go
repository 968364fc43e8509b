package agent

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/probe"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

func request(body string) *api.JobRequest {
	var r api.JobRequest
	if err := decodeJSON([]byte(body), &r); err != nil {
		panic(err)
	}
	return &r
}

func testRules(change func(*Config)) *rulebook {
	cfg := DefaultConfig()
	cfg.Max.CPUs = 4
	if change != nil {
		change(&cfg)
	}
	usual, err := policy.Default(runtime.GOARCH)
	if err != nil {
		panic(err)
	}
	return &rulebook{
		cfg: &cfg, lacks: func(m jail.Mode) string {
			if m == jail.Minimal && cfg.Backend == jail.Syd && cfg.MinGrade == jail.Minimal && cfg.Queue == 1 {
				return "no chroot"
			}
			return ""
		},
		node:  func() report { return report{} },
		usual: usual,
		languages: findLanguages([]probe.Language{
			{Name: "python", Program: "/usr/bin/python3"}, {Name: "javascript", Program: "/usr/bin/node", Version: "v22.6.0"},
			{Name: "c", Program: "/usr/bin/clang"},
		}),
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, tc := range []struct{ body, class, field string }{
		{``, "invalid", ""},
		{`{`, "invalid", ""},
		{`[]`, "invalid", ""},
		{`"x"`, "invalid", ""},
		{`{} {}`, "invalid", ""},
		{`{}`, "invalid", "command"},
		{`{"comand":["x"]}`, "invalid", "comand"},
		{`{"command":["x"],"Command":["y"]}`, "invalid", "Command"},
		{`{"command":["x"],"command":["y"]}`, "invalid", "command"},
		{`{"command":"x"}`, "invalid", "command"},
		{`{"command":[1]}`, "invalid", "command[0]"},
		{`{"command":[""]}`, "invalid", "command[0]"},
		{`{"command":["x","a\u0000b"]}`, "invalid", "command[1]"},
		{`{"command":["x","` + long + `"]}`, "invalid", "command"},
		{"{\"command\":[\"\xff\"]}", "invalid", "command[0]"},
		{`{"command":["\ud800"]}`, "invalid", "command[0]"},
		{`{"command":["x"],"language":"python","code":"y"}`, "invalid", "command"},
		{`{"language":"python"}`, "invalid", "code"},
		{`{"code":"x"}`, "invalid", "language"},
		{`{"language":"cobol","code":"x"}`, "unsupported", "language"},
		{`{"language":"go","code":"x"}`, "unsupported", "language"},
		{`{"language":"python","code":"x","cwd":"/tmp"}`, "unsupported", "cwd"},
		{`{"id":"A","command":["x"]}`, "invalid", "id"},
		{`{"id":"../x","command":["x"]}`, "invalid", "id"},
		{`{"id":"` + strings.Repeat("a", 64) + `","command":["x"]}`, "invalid", "id"},
		{`{"command":["x"],"wait":"yes"}`, "invalid", "wait"},
		{`{"command":["x"],"tty":true}`, "unsupported", "tty"},
		{`{"command":["x"],"base":"image:debian"}`, "unsupported", "base"},
		{`{"command":["x"],"policy":{"extras":["ptrace"]}}`, "forbidden", "policy.extras"},
		{`{"command":["x"],"policy":{"extras":["root"]}}`, "invalid", "policy.extras"},
		{`{"command":["x"],"policy":{"deny":["root"]}}`, "invalid", "policy.deny"},
		{`{"command":["x"],"policy":{"deny":["syscall.execve"]}}`, "invalid", "policy.deny"},
		{`{"command":["x"],"jail":"minimal","policy":{"deny":["syscall.getpid"]}}`, "unsupported", "policy.deny"},
		{`{"command":["x"],"jail":"minimal","policy":{"deny":["processes"]}}`, "unsupported", "policy.deny"},
		{`{"command":["x"],"policy":{"deny":["x"]}}`, "invalid", "policy.deny"},
		{`{"command":["x"],"policy":{"allow":["x"]}}`, "invalid", "policy.allow"},
		{`{"command":["x"],"env":{"1A":"x"}}`, "invalid", "env"},
		{`{"command":["x"],"env":{"A=B":"x"}}`, "invalid", "env"},
		{`{"command":["x"],"env":{"A":"\u0000"}}`, "invalid", "env.A"},
		{`{"command":["x"],"env":{"A":1}}`, "invalid", "env.A"},
		{`{"command":["x"],"env":{"A":"` + long + `"}}`, "invalid", "env"},
		{`{"command":["x"],"cwd":"/proc/self/fd/7"}`, "invalid", "cwd"},
		{`{"command":["x"],"cwd":"/proc/self/cwd/../../.."}`, "invalid", "cwd"},
		{`{"command":["x"],"cwd":"/./proc//self"}`, "invalid", "cwd"},
		{`{"command":["x"],"cwd":"a/../b"}`, "invalid", "cwd"},
		{`{"command":["x"],"cwd":"/dev/fd"}`, "invalid", "cwd"},
		{`{"command":["x"],"files":[{"path":"","content":""}]}`, "invalid", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"a","content":""},{"path":"./a","content":""}]}`, "invalid", "files[1].path"},
		{`{"command":["x"],"files":[{"path":"a/b","content":""},{"path":"a","content":""}]}`, "invalid", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"../a","content":""}]}`, "invalid", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"` + strings.Repeat("a/", 64) + `b","content":""}]}`, "invalid", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"a/b/c/d","content":""}],"limits":{"inodes":4}}`, "invalid", "files"},
		{`{"command":["x"],"files":[{"path":"a","content":"12345"}],"limits":{"disk":"4"}}`, "invalid", "files"},
		{`{"command":["x"],"outputs":["` + strings.Repeat("{a,b}", 7) + `"]}`, "invalid", "outputs[0]"},
		{`{"command":["x"],"files":[{"path":"a/","content":""}]}`, "invalid", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"/workspace","content":""}]}`, "invalid", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"/proc/x","content":""}]}`, "invalid", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"/usr/bin/x","content":""}]}`, "unsupported", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"/tmp/x","content":""}]}`, "unsupported", "files[0].path"},
		{`{"command":["x"],"files":[{"path":"a","content":"","mode":"4755"}]}`, "invalid", "files[0].mode"},
		{`{"command":["x"],"files":[{"path":"a","content":"","mode":"1777"}]}`, "invalid", "files[0].mode"},
		{`{"command":["x"],"files":[{"path":"a","content":"","mode":"rwx"}]}`, "invalid", "files[0].mode"},
		{`{"command":["x"],"files":[{"path":"a","content":"","mode":644}]}`, "invalid", "files[0].mode"},
		{`{"command":["x"],"files":[{"path":"a","content":"!","encoding":"base64"}]}`, "invalid", "files[0].content"},
		{`{"command":["x"],"files":[{"path":"a","content":"","encoding":"hex"}]}`, "invalid", "files[0].encoding"},
		{`{"command":["x"],"files":[{"path":"a","contents":""}]}`, "invalid", "files[0].contents"},
		{`{"language":"python","code":"x","files":[{"path":"tolbooth-main.py","content":""}]}`, "invalid", "files[0].path"},
		{`{"command":["x"],"stdin":{"opened":true}}`, "invalid", "stdin.opened"},
		{`{"command":["x"],"stdin":5}`, "invalid", "stdin"},
		{`{"command":["x"],"limits":{"memory":"8Ei"}}`, "invalid", "limits.memory"},
		{`{"command":["x"],"limits":{"memory":"1000Ti"}}`, "unsupported", "limits.memory"},
		{`{"command":["x"],"limits":{"memory":"1"}}`, "invalid", "limits.memory"},
		{`{"command":["x"],"limits":{"memory":"-1Gi"}}`, "invalid", "limits.memory"},
		{`{"command":["x"],"limits":{"memory":true}}`, "invalid", "limits.memory"},
		{`{"command":["x"],"limits":{"wall":"25h"}}`, "unsupported", "limits.wall"},
		{`{"command":["x"],"limits":{"wall":5}}`, "invalid", "limits.wall"},
		{`{"command":["x"],"limits":{"wall":"-5s"}}`, "invalid", "limits.wall"},
		{`{"command":["x"],"limits":{"cpus":100}}`, "unsupported", "limits.cpus"},
		{`{"command":["x"],"limits":{"cpus":0.0001}}`, "invalid", "limits.cpus"},
		{`{"command":["x"],"limits":{"cpus":-1}}`, "invalid", "limits.cpus"},
		{`{"command":["x"],"limits":{"pids":-1}}`, "invalid", "limits.pids"},
		{`{"command":["x"],"limits":{"pids":1.5}}`, "invalid", "limits.pids"},
		{`{"command":["x"],"limits":{"pids":99999999999999999999}}`, "invalid", "limits.pids"},
		{`{"command":["x"],"limits":{"open_files":99999999}}`, "unsupported", "limits.open_files"},
		{`{"command":["x"],"limits":{"gpu":1}}`, "invalid", "limits.gpu"},
		{`{"command":["x"],"network":{"mode":"all"}}`, "invalid", "network.mode"},
		{`{"command":["x"],"network":{"allow":["10.0.0.1:80"]}}`, "invalid", "network.allow"},
		{`{"command":["x"],"network":{"mode":"open","allow":["10.0.0.1:80"]}}`, "invalid", "network.allow"},
		{`{"command":["x"],"network":{"mode":"allow","allow":["10.0.0.1:80","10.0.0.1:99999"]}}`, "invalid", "network.allow[1]"},
		{`{"command":["x"],"network":{"deny":["10.0.0.1:x"]}}`, "invalid", "network.deny[0]"},
		{`{"command":["x"],"network":{"mode":"allow","allow":["a.example:443","*:443"]}}`, "invalid", "network.allow[1]"},
		{`{"command":["x"],"network":{"mode":"allow","deny":["a.*.example"]}}`, "invalid", "network.deny[0]"},
		{`{"command":["x"],"network":{"rate":"20M"}}`, "invalid", "network.rate"},
		{`{"command":["x"],"network":{"budget":"200Mi"}}`, "invalid", "network.budget"},
		{`{"command":["x"],"network":{"mode":"open","budget":"200"}}`, "invalid", "network.budget"},
		{`{"command":["x"],"network":{"mode":"open","rate":"10k"}}`, "invalid", "network.rate"},
		{`{"command":["x"],"jail":"minimal","network":{"mode":"open","rate":"1M"}}`, "unsupported", "network.rate"},
		{`{"command":["x"],"jail":"gvisor"}`, "invalid", "jail"},
		{`{"command":["x"],"min_grade":"best"}`, "invalid", "min_grade"},
		{`{"command":["x"],"workspace":"Upper"}`, "invalid", "workspace"},
		{`{"command":["x"],"workspace":"../x"}`, "invalid", "workspace"},
		{`{"command":["x"],"outputs":["../*"]}`, "invalid", "outputs[0]"},
		{`{"command":["x"],"outputs":["[a"]}`, "invalid", "outputs[0]"},
		{`{"command":["x"],"outputs":["*","/etc/*"]}`, "invalid", "outputs[1]"},
		{`{"command":["x"],"outputs":["."]}`, "invalid", "outputs[0]"},
		{`{"command":["x"],"labels":{"a:b":"c"}}`, "invalid", "labels"},
		{`{"command":["x"],"labels":{"a":"b\nc"}}`, "invalid", "labels.a"},
		{`{"command":["x"],"labels":{"a":1}}`, "invalid", "labels.a"},
	} {
		err := func() error {
			var r api.JobRequest
			if err := decodeJSON([]byte(tc.body), &r); err != nil {
				return err
			}
			_, err := testRules(nil).admit(&r)
			return err
		}()
		p, ok := errors.AsType[*problem](err)
		if !ok || p.Class != tc.class || p.Field != tc.field {
			t.Errorf("%.100s: %v; want %s about %q", tc.body, err, tc.class, tc.field)
		}
		if len(fmt.Sprint(err)) > 600 {
			t.Errorf("%.100s: the message has %d bytes", tc.body, len(fmt.Sprint(err)))
		}
	}
}

func TestNodeRules(t *testing.T) {
	for _, tc := range []struct {
		change             func(*Config)
		body, class, field string
	}{
		{func(c *Config) { c.Network.Open = false }, `{"command":["x"],"network":{"mode":"open"}}`, "forbidden", "network.mode"},
		{func(c *Config) { c.FS.Enabled = false }, `{"command":["x"],"workspace":"w"}`, "unsupported", "workspace"},
		{func(c *Config) { c.Backend = jail.Minimal }, `{"command":["x"],"min_grade":"syd"}`, "unsupported", "min_grade"},
		{func(c *Config) { c.Backend = jail.Minimal }, `{"command":["x"],"network":{"mode":"allow","allow":["10.0.0.1"]}}`, "unsupported", "network.mode"},
		{func(c *Config) { c.Backend = jail.Minimal }, `{"command":["x"],"network":{"mode":"open","deny":["10.0.0.1"]}}`, "unsupported", "network.deny"},
		{func(c *Config) { c.MinGrade = jail.Syd }, `{"command":["x"],"jail":"minimal"}`, "forbidden", "jail"},
		{func(c *Config) { c.MinGrade, c.Queue = jail.Minimal, 1 }, `{"command":["x"],"jail":"minimal"}`, "unsupported", "jail"},
		{func(c *Config) { c.MinGrade, c.Queue = jail.Minimal, 2 }, `{"command":["x"],"jail":"minimal","min_grade":"syd"}`, "unsupported", "min_grade"},
	} {
		_, err := testRules(tc.change).admit(request(tc.body))
		if p, ok := errors.AsType[*problem](err); !ok || p.Class != tc.class || p.Field != tc.field {
			t.Errorf("%s: %v; want %s about %q", tc.body, err, tc.class, tc.field)
		}
	}
}

func TestGrades(t *testing.T) {
	w, err := testRules(nil).admit(request(`{"command":["x"],"jail":"minimal"}`))
	if err != nil || w.Mode != jail.Minimal || w.MinGrade != "minimal" {
		t.Errorf("%+v %v", w, err)
	}
	w, err = testRules(func(c *Config) { c.Backend = jail.Minimal }).admit(request(`{"command":["x"],"jail":"syd","min_grade":"syd"}`))
	if err != nil || w.Mode != jail.Syd || w.MinGrade != "syd" {
		t.Errorf("%+v %v", w, err)
	}
	w, err = testRules(func(c *Config) { c.MinGrade = jail.Syd }).admit(request(`{"command":["x"],"min_grade":"minimal"}`))
	if err != nil || w.MinGrade != "syd" {
		t.Errorf("a request lowered the minimum: %+v %v", w, err)
	}
}

func TestWorkIsComplete(t *testing.T) {
	w, err := testRules(nil).admit(request(`{
		"language":"python","code":"print(1)","cwd":"sub","env":{"A":"ü","PATH":"/x"},"limits":{"cpus":1.5,"memory":"1G"},
		"files":[{"path":"data/in.csv","content":"YSxiCg==","encoding":"base64","mode":"0755"},{"path":"/var/tmp/motd","content":"hi"}],
		"network":{"mode":"allow","allow":["10.1.2.0/24:5432/tcp","*.Example.com:443","[fd00::1]:53/udp","192.0.2.1"],"deny":["169.254.0.0/16","a.example.com"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if w.Cwd != "/workspace/sub" || !slices.Equal(w.Command, []string{"python3", "/workspace/sub/tolbooth-main.py"}) {
		t.Errorf("%s %v", w.Cwd, w.Command)
	}
	for _, want := range []string{
		"A=ü", "PATH=/x", "HOME=/workspace", "USER=sandbox", "LOGNAME=sandbox", "SHELL=/bin/bash", "LANG=C.UTF-8", "TMPDIR=/tmp", "TERM=dumb",
		"OMP_NUM_THREADS=2", "GOMAXPROCS=2",
	} {
		if !slices.Contains(w.Env, want) {
			t.Errorf("the environment lacks %s", want)
		}
	}
	if !slices.IsSorted(w.Env) || strings.Contains(strings.Join(w.Env, " "), "TZ=") {
		t.Error(w.Env)
	}
	if len(w.Files) != 3 || w.Files[0].Path != "/workspace/data/in.csv" || string(w.Files[0].Data) != "a,b\n" || w.Files[0].Mode != 0o755 || w.Files[0].Scratch ||
		w.Files[1].Path != "/var/tmp/motd" || w.Files[1].Mode != 0o644 || !w.Files[2].Scratch || string(w.Files[2].Data) != "print(1)" {
		t.Errorf("%+v", w.Files)
	}
	if w.Limits.Memory.Value != 1_000_000_000 || w.Limits.CPUs.Value != 1.5 {
		t.Errorf("%+v", w.Limits)
	}
	if w.Network.Mode != "allow" || len(w.Network.Policy.Allow) != 3 || len(w.Network.Policy.Deny) != 1 ||
		len(w.Network.Names.Allow) != 1 || w.Network.Names.Allow[0].Text() != "*.example.com" || len(w.Network.Names.Deny) != 1 || len(w.Network.Allow) != 4 {
		t.Errorf("%+v", w.Network)
	}
	if w, err := testRules(nil).admit(request(`{"command":["x"],"network":{"deny":["10.0.0.0/8"]}}`)); err != nil || w.Network.Mode != "none" {
		t.Errorf("%+v %v", w, err)
	}
}

func TestLanguages(t *testing.T) {
	ls := testRules(nil).languages
	for name, want := range map[string]string{
		"python": "python3 /workspace/w/tolbooth-main.py", "javascript": "node /workspace/w/tolbooth-main.js",
		"typescript": "node --experimental-strip-types /workspace/w/tolbooth-main.ts", "c": "sh -c " + compiled + " sh clang /workspace/w/tolbooth-main.c",
	} {
		command, _, _, err := ls.code(name, "x", "/workspace/w")
		if err != nil || strings.Join(command, " ") != want {
			t.Errorf("%s: %v %v", name, command, err)
		}
	}
	for version, want := range map[string]bool{"v20.20.2": false, "v22.5.9": false, "v22.6.0": true, "v24.0.0": true, "": false, "weird": false} {
		if stripsTypes(version) != want {
			t.Errorf("%q", version)
		}
	}
}

func TestOutputGlobs(t *testing.T) {
	w, err := testRules(nil).admit(request(`{"command":["x"],"outputs":["*.png","./a//b/**","/workspace/c/*.txt","**/{x,y}"]}`))
	if want := []string{"*.png", "a/b/**", "c/*.txt", "**/{x,y}"}; err != nil || !slices.Equal(w.Outputs, want) {
		t.Errorf("%v, %v; want %v", w, err, want)
	}
}

// TestDecodeWords: what is wrong with a value is said in the words of the API, and a null is no value.
func TestDecodeWords(t *testing.T) {
	for body, want := range map[string]string{
		`{"limits":{"wall":5}}`:        `must be a duration such as "1.5s", not a number`,
		`{"limits":{"pids":1.5}}`:      "must be a whole number, written in digits alone",
		`{"limits":{"pids":"5"}}`:      "must be a whole number, not a string",
		`{"limits":{"memory":"lots"}}`: `"lots" is not a quantity such as "256Mi" or "1G"`,
	} {
		if err := decodeJSON([]byte(body), &api.JobRequest{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", body, err, want)
		}
	}
	if err := decodeJSON([]byte(`{"limits":{"wall":null,"memory":null,"pids":null}}`), &api.JobRequest{}); err != nil {
		t.Error(err)
	}
}

// TestManySmallValues: a body that would take many times its size when decoded is refused before it is.
func TestManySmallValues(t *testing.T) {
	many := `{"command":["x"],"files":[` + strings.Repeat(`{"path":"a"},`, 200_000) + `{"path":"a"}]}`
	p, ok := errors.AsType[*problem](decodeJSON([]byte(many), &api.JobRequest{}))
	if !ok || p.Class != "too_large" {
		t.Errorf("%v", p)
	}
	var few api.JobRequest
	one := `{"command":["x"],"files":[{"path":"a","content":"` + strings.Repeat("1,2,3\\n", 1<<20) + `"}]}`
	if err := decodeJSON([]byte(one), &few); err != nil || len(few.Files) != 1 {
		t.Error(err)
	}
}
