package socket

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// TestEnvironmentIsWhatWasAsked is P19: the variables of a request are what the program sees, to the byte, over documented
// defaults; nothing is dropped or added on the way, and the result lists what was in force.
func TestEnvironmentIsWhatWasAsked(t *testing.T) {
	a := harness.Start(t, harness.Options{})
	node, err := a.Client.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]string{
		"A": "1", "EMPTY": "", "SPACES": " a  b ", "LINES": "x\ny=z\n", "WORD": "日本語", "_lower9": "=", "LONG": strings.Repeat("l", 100<<10),
		"HOME": "/tmp", "LD_PRELOAD": "", "TZ": "Europe/Berlin", "NODE_OPTIONS": "--no-warnings", "OMP_NUM_THREADS": "7",
	}
	want := map[string]string{}
	for _, env := range []map[string]string{node.Env, asked} {
		for name, value := range env {
			want[name] = value
		}
	}
	res := a.Run(api.JobRequest{Command: []string{"cat", "/proc/self/environ"}, Env: asked, Limits: api.Limits{Pids: 9}})
	got, names := map[string]string{}, []string{}
	for v := range strings.SplitSeq(strings.TrimSuffix(res.Stdout, "\x00"), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		got[name], names = value, append(names, name)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %.200q, want %.200q", name, got[name], value)
		}
	}
	e := res.Effective
	if e == nil {
		t.Fatal("the result does not say what was in force")
	}
	slices.Sort(names)
	if len(got) != len(want) || !slices.Equal(e.Env, names) {
		t.Errorf("the program has %d variables, want %d:\n%v\nthe result lists\n%v", len(got), len(want), names, e.Env)
	}
	for _, l := range []api.Limit{{Name: "pids", Value: "9", SetBy: "request"}, {Name: "wall", Value: node.Limits.Defaults.Wall.String(), SetBy: "default"}} {
		if !slices.Contains(e.Limits, l) {
			t.Errorf("no limit %+v in %+v", l, e.Limits)
		}
	}
	if e.Network.Mode != "none" {
		t.Errorf("%+v", e.Network)
	}
}

// TestNothingOfTheAgentsEnvironment is P20: what is in the agent's own environment shows nowhere in a job, by no route: not in its
// variables, in no process of the jail that it may look at, in no file, in no memory that it is born with, in no answer of the API.
func TestNothingOfTheAgentsEnvironment(t *testing.T) {
	const canary = "zz-canary"
	for _, jail := range []string{"syd", "minimal"} {
		t.Run(jail, func(t *testing.T) {
			a := harness.Start(t, harness.Options{Env: map[string]string{"DB_PASSWORD": canary}})
			res := a.Run(api.JobRequest{ID: "canary", Jail: jail, Language: "python", Code: `
import os, subprocess
# Not written out here: the program's own text is in its memory and on its disk.
canary = b'zz' + b'-canary'
def has(path):
    try:
        with open(path, 'rb') as f: return canary in f.read(1 << 20)
    except OSError: return False
print(os.environ)
print(subprocess.run(['env'], capture_output=True, text=True).stdout)
processes = [d for d in os.listdir('/proc') if d.isdigit()]
print('processes', '1' in processes, [p for p in processes for f in ('environ', 'cmdline', 'auxv') if has('/proc/%s/%s' % (p, f))])
print('files', [os.path.join(d, f) for top in ('/etc', '/run', '/tmp', '/var', '/workspace', '/dev/shm') for d, _, fs in os.walk(top) for f in fs if has(os.path.join(d, f))])
with open('/proc/self/maps') as maps: areas = [l.split() for l in maps if '[stack]' in l or '[heap]' in l]
with open('/proc/self/mem', 'rb', 0) as memory:
    for area in areas:
        if area[-1] == '[stack]':
            low, high = (int(x, 16) for x in area[0].split('-'))
            memory.seek(low)
            print('stack', canary in memory.read(high - low))
try: print(open('/proc/1/environ').read())
except PermissionError: print('init refused')
`})
			for _, want := range []string{"processes True []\n", "files []\n", "stack False\n", "init refused\n"} {
				if !strings.Contains(res.Stdout, want) {
					t.Errorf("no %q: %s\n%s%s", want, res.Outcome, res.Stdout, res.Stderr)
				}
			}
			if strings.Contains(res.Stdout+res.Stderr, canary) || strings.Contains(res.Stdout, "DB_PASSWORD") {
				t.Errorf("%s%s", res.Stdout, res.Stderr)
			}
			for what, get := range map[string]func() (any, error){
				"health": func() (any, error) { return a.Client.Health(t.Context()) },
				"node":   func() (any, error) { return a.Client.Node(t.Context()) },
				"job":    func() (any, error) { return a.Client.Get(t.Context(), "canary", 0) },
				"log":    func() (any, error) { return a.Log(), nil },
			} {
				answer, err := get()
				if err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(answer)
				if err != nil || len(text) < 100 || strings.Contains(string(text), canary) {
					t.Errorf("%s: %v %s", what, err, text)
				}
			}
		})
	}
}
