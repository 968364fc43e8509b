package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// recorded is one line of a file that internal/hosttest appends to.
type recorded struct{ need, why, pkg, test string }

// report adds the runs up, prints the skips and the total, and fails when a test failed, a run is missing, a skip has no
// recorded reason, or there are more skips than allowed.
func report(dir string, need, skipFiles []string, maxSkips int, notRun, totalFile string) error {
	runs, err := load(dir)
	if err != nil {
		return err
	}
	reasons, err := readSkips(skipFiles)
	if err != nil {
		return err
	}
	s := add(runs, reasons)
	for _, name := range need {
		if name != "" && !slices.ContainsFunc(runs, func(r result) bool { return r.Name == name }) {
			s.problems = append(s.problems, "run "+name+" has no result: it never started or broke off")
		}
	}
	if maxSkips >= 0 && s.skipped > maxSkips {
		s.problems = append(s.problems, fmt.Sprintf("%d tests skipped, at most %d are allowed (.ci/skips-max)", s.skipped, maxSkips))
	}
	fmt.Print(table(runs))
	if notRun != "" {
		fmt.Printf("NOT RUN: %s\n\n", notRun)
	}
	fmt.Print(s.text())
	if totalFile != "" {
		if err := os.WriteFile(totalFile, []byte(s.total()), 0o666); err != nil {
			return err
		}
	}
	if s.failed > 0 || len(s.problems) > 0 {
		return errFailed
	}
	return nil
}

type summary struct {
	passed, failed, skipped int
	failures                []string
	byNeed                  map[string]int
	skips                   []string
	problems                []string
}

// add merges the runs. A test counts once however often it ran, and as skipped only when every run skipped it.
func add(runs []result, reasons []recorded) summary {
	merged := result{Tests: map[string]outcome{}}
	s := summary{byNeed: map[string]int{}}
	for _, r := range runs {
		for key, o := range r.Tests {
			merged.set(key, o)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(merged.Tests)) {
		switch merged.Tests[key] {
		case pass:
			s.passed++
		case fail:
			s.failed++
			s.failures = append(s.failures, key)
		case skip:
			s.skipped++
			pkg, test, _ := strings.Cut(key, " ")
			i := slices.IndexFunc(reasons, func(r recorded) bool { return r.pkg == pkg && r.test == test })
			if i < 0 {
				s.problems = append(s.problems, "skip without a reason recorded through internal/hosttest: "+key)
			}
		}
	}
	// A reason counts unless its test ran in another run.
	for _, r := range reasons {
		if ranSomewhere(merged, r) {
			continue
		}
		s.byNeed[r.need]++
		s.skips = append(s.skips, fmt.Sprintf("%s: %s (%s %s)", r.need, r.why, r.pkg, r.test))
	}
	return s
}

func ranSomewhere(merged result, r recorded) bool {
	for key, o := range merged.Tests {
		pkg, test, _ := strings.Cut(key, " ")
		if o != skip && test == r.test && pkg == r.pkg {
			return true
		}
	}
	return false
}

func (s summary) text() string {
	var b strings.Builder
	for _, f := range s.failures {
		fmt.Fprintln(&b, "FAILED:", f)
	}
	var needs []string
	for _, need := range slices.Sorted(maps.Keys(s.byNeed)) {
		needs = append(needs, fmt.Sprintf("%s: %d", need, s.byNeed[need]))
	}
	fmt.Fprintf(&b, "skipped: %d", s.skipped)
	if len(needs) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(needs, ", "))
	}
	fmt.Fprintln(&b)
	slices.Sort(s.skips)
	for _, line := range s.skips {
		fmt.Fprintln(&b, "  "+line)
	}
	for _, p := range s.problems {
		fmt.Fprintln(&b, "PROBLEM:", p)
	}
	b.WriteString(s.total())
	return b.String()
}

// total is the line that everything ends with. A run that is missing is a failure that no test stands for.
func (s summary) total() string {
	failed := s.failed
	if len(s.problems) > 0 {
		failed = max(failed, 1)
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped\n", s.passed, failed, s.skipped)
}

// table shows each run by itself: a test that two of them ran is in both lines.
func table(runs []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-14s %7s %7s %8s %8s\n", "stage", "passed", "failed", "skipped", "time")
	total := 0.0
	for _, r := range runs {
		total += r.Seconds
		fmt.Fprintf(&b, "%-14s %7d %7d %8d %8s\n", r.Name, r.count(pass), r.count(fail), r.count(skip), clock(r.Seconds))
	}
	fmt.Fprintf(&b, "%-14s %7s %7s %8s %8s\n\n", "", "", "", "", clock(total))
	return b.String()
}

// clock writes minutes and seconds.
func clock(seconds float64) string {
	n := int(seconds + 0.5)
	return fmt.Sprintf("%d:%02d", n/60, n%60)
}

// readSkips reads the files of recorded skips; equal lines, from a test that ran twice, count once a file.
func readSkips(files []string) ([]recorded, error) {
	var all []recorded
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing was skipped there
		}
		if err != nil {
			return nil, err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		slices.Sort(lines)
		for _, line := range slices.Compact(lines) {
			f := strings.Split(line, "\t")
			if line == "" {
				continue
			}
			if len(f) != 4 {
				return nil, fmt.Errorf("%s: line %q has %d columns, want 4", file, line, len(f))
			}
			all = append(all, recorded{f[0], f[1], f[2], f[3]})
		}
	}
	return all, nil
}
