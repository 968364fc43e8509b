package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/agent"
)

// limitFlag are the two keys of each limit: the manual states their rule instead of listing them.
var limitFlag = regexp.MustCompile(`^limits-(defaults|max)-`)

func TestManualHasEverySetting(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // by flag
	for line := range strings.Lines(string(manual)) {
		if cells := strings.Split(line, "|"); len(cells) == 7 && strings.HasPrefix(cells[2], " `--") {
			rows[strings.Trim(cells[2], " `-")] = line
		}
	}
	for _, flag := range agent.Flags() {
		f, ok := flag.(*urfave.StringFlag)
		if !ok {
			t.Fatalf("flag %v is no StringFlag", flag.Names())
		}
		row := rows[f.Name]
		delete(rows, f.Name)
		switch {
		case f.Name == "config" || limitFlag.MatchString(f.Name):
		case row == "":
			t.Errorf("docs/operators.md has no row for --%s", f.Name)
		case !strings.Contains(row, "`"+f.EnvVars[0]+"`"):
			t.Errorf("--%s: the row does not name %s: %s", f.Name, f.EnvVars[0], row)
		case f.DefaultText != "" && !strings.Contains(row, f.DefaultText) && !dependsOnNode[f.Name]:
			t.Errorf("--%s: the row does not give the default %s: %s", f.Name, f.DefaultText, row)
		}
	}
	for name := range rows {
		t.Errorf("docs/operators.md has a row for --%s, which does not exist", name)
	}
}

// dependsOnNode are settings whose default is worked out on the node.
var dependsOnNode = map[string]bool{"node-name": true, "max-jobs": true, "prepared": true}

func TestManualHasEveryMetric(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	names := func(text []byte, pattern string) map[string]bool {
		found := map[string]bool{}
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			found[string(match[1])] = true
		}
		return found
	}
	exist, described := names(source, `"(tolbooth_\w+)"`), names(manual, "(?m)^\\| `(tolbooth_\\w+)`")
	for name := range exist {
		if !described[name] {
			t.Errorf("docs/operators.md does not describe %s", name)
		}
	}
	for name := range described {
		if !exist[name] {
			t.Errorf("docs/operators.md describes %s, which does not exist", name)
		}
	}
	if len(exist) < 10 {
		t.Errorf("found only %d metrics in metrics.go", len(exist))
	}
}
