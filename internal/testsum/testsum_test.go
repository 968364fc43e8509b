package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"quiet please\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"run","Package":"m/a","Test":"TestBad"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:1: the reason\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad"}
{"Action":"skip","Package":"m/a","Test":"TestRoot"}
{"Action":"fail","Package":"m/a","Elapsed":1.5}
{"Action":"pass","Package":"m/b","Test":"TestLeaky"}
{"Action":"output","Package":"m/b","Output":"LEAK: a descriptor\n"}
{"Action":"fail","Package":"m/b","Elapsed":0.1}
{"ImportPath":"m/c","Action":"build-output","Output":"c.go:1: undefined: x\n"}
{"Action":"fail","Package":"m/c"}
{"Action":"skip","Package":"m/none"}
`

func TestConsume(t *testing.T) {
	res := result{Name: "unit", Tests: map[string]outcome{}}
	var out bytes.Buffer
	if err := consume(strings.NewReader(events), &res, &out); err != nil {
		t.Fatal(err)
	}
	want := map[string]outcome{"m/a TestGood": pass, "m/a TestBad": fail, "m/a TestRoot": skip,
		"m/b TestLeaky": pass, "m/b (package)": fail, "m/c (package)": fail}
	for key, o := range want {
		if res.Tests[key] != o {
			t.Errorf("%s: %d, want %d", key, res.Tests[key], o)
		}
	}
	if len(res.Tests) != len(want) {
		t.Errorf("tests %v", res.Tests)
	}
	text := out.String()
	for _, line := range []string{"the reason", "LEAK: a descriptor", "undefined: x", "FAIL m/a: 1 passed, 1 failed, 1 skipped"} {
		if !strings.Contains(text, line) {
			t.Errorf("output lacks %q:\n%s", line, text)
		}
	}
	if strings.Contains(text, "quiet please") {
		t.Errorf("output of a test that passed:\n%s", text)
	}
}

func TestAddCountsATestOnce(t *testing.T) {
	unit := result{Name: "unit", Tests: map[string]outcome{"m/a X": skip, "m/a Y": skip, "m/a Z": pass, "m/a Bare": skip, "m/a V": skip}}
	root := result{Name: "root", Tests: map[string]outcome{"m/a X": pass, "m/a Y": skip}}
	vm := result{Name: "vm", Tests: map[string]outcome{"m/a V": pass, "m/a W": pass}}
	reasons := []recorded{{"kernel", "needs 9.9", "m/a", "Y"}, {"root", "needs uid 0", "m/a", "X"}, {"cgroup v2", "none", "m/a", "V"}}
	s := add([]result{unit, root, vm}, reasons)
	if s.passed != 4 || s.failed != 0 || s.skipped != 2 {
		t.Errorf("%d passed, %d failed, %d skipped", s.passed, s.failed, s.skipped)
	}
	want := []string{"kernel: needs 9.9 (m/a Y)"}
	if !slices.Equal(s.skips, want) {
		t.Errorf("skips %q, want %q", s.skips, want)
	}
	if len(s.problems) != 1 || !strings.Contains(s.problems[0], "m/a Bare") {
		t.Errorf("problems %q", s.problems)
	}
	if !strings.HasSuffix(s.text(), "4 passed, 1 failed, 2 skipped\n") {
		t.Errorf("text %q", s.text())
	}
}

func TestReportJudges(t *testing.T) {
	ok := result{Name: "unit", Tests: map[string]outcome{"m/a X": pass, "m/a Y": skip}}
	tests := []struct {
		name  string
		runs  []result
		need  string
		max   int
		fails bool
	}{
		{"good", []result{ok}, "unit", 1, false},
		{"no bound", []result{ok}, "unit", -1, false},
		{"over the bound", []result{ok}, "unit", 0, true},
		{"a run is missing", []result{ok}, "vm", 1, true},
		{"a failure", []result{ok, {Name: "vm", Tests: map[string]outcome{"m/a X": fail}}}, "unit", 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, r := range tt.runs {
				if err := r.save(dir); err != nil {
					t.Fatal(err)
				}
			}
			skips := filepath.Join(dir, "skips")
			if err := os.WriteFile(skips, []byte("root\tneeds uid 0\tm/a\tY\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := report(dir, []string{tt.need}, []string{skips}, tt.max, "", ""); (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %v", err, tt.fails)
			}
		})
	}
}

func TestVM(t *testing.T) {
	logs := t.TempDir()
	log := "=== RUN   TestA\n--- PASS: TestA (0.01s)\n    --- SKIP: TestA/sub (0.00s)\n"
	if err := os.WriteFile(filepath.Join(logs, "jail-cgroup.log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	const head = "echo '=== ./jail/cgroup'; "
	for script, fails := range map[string]bool{
		head + "echo 'VM 6.1: 1 passed, 0 failed, 1 skipped (6.1.0, 9 s)'":                                                                      false,
		head + "echo 'VM 6.1: 1 passed, 0 failed, 1 skipped (6.1.0, 9 s)'; exit 1":                                                              true,
		"echo '2| === ./jail/cgroup'; echo '2| VM 6.1: 7 passed, 0 failed, 0 skipped'; echo 'VM 6.1: 1 passed, 0 failed, 1 skipped (2 guests)'": false,
		head + "echo 'VM 6.1: 1 passed, 1 failed, 1 skipped (6.1.0, 9 s)'":                                                                      true,
		head + "echo 'VM 6.1: 7 passed, 0 failed, 1 skipped (6.1.0, 9 s)'":                                                                      true,
		"echo 'VM 6.1: 0 passed, 0 failed, 0 skipped (6.1.0, 9 s)'":                                                                             true,
		"echo all good":             true,
		"echo '=== ./jail/missing'": true,
	} {
		dir := t.TempDir()
		err := runVM(dir, "vm", logs, []string{"bash", "-c", script})
		if (err != nil) != fails {
			t.Errorf("%s: error %v, want one: %v", script, err, fails)
		}
		if fails {
			continue
		}
		runs, err := load(dir)
		if err != nil || len(runs) != 1 || runs[0].Tests[module+"/jail/cgroup TestA"] != pass || runs[0].Tests[module+"/jail/cgroup TestA/sub"] != skip {
			t.Errorf("kept %+v, %v", runs, err)
		}
	}
}

func TestStepCountsAsOneTest(t *testing.T) {
	dir := t.TempDir()
	if err := runStep(dir, "check", []string{"true"}); err != nil {
		t.Fatal(err)
	}
	if err := runStep(dir, "build", []string{"false"}); err == nil {
		t.Error("a command that failed passed")
	}
	runs, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Name != "check" || runs[0].Tests["check true"] != pass || runs[1].Tests["build false"] != fail {
		t.Errorf("runs %+v", runs)
	}
}

func TestTableShowsEachRun(t *testing.T) {
	text := table([]result{{Name: "unit", Tests: map[string]outcome{"a": pass, "b": skip}, Seconds: 61}, {Name: "vm", Tests: map[string]outcome{"a": fail}, Seconds: 2.6}})
	for _, want := range []string{"unit                 1       0        1     1:01\n", "vm                   0       1        0     0:03\n", "     1:04\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}
