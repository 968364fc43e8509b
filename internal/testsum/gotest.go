package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Elapsed    float64
	Output     string
}

// runGo runs go test, prints one line a package and the output of what failed, and keeps the result.
func runGo(dir, name string, args []string) error {
	res := begin(name)
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := consume(stdout, &res, os.Stdout)
	waitErr := cmd.Wait()
	if waitErr != nil && !res.failed() {
		// go test itself failed: a bad flag, no packages. No test would say so.
		res.set(name+" go test", fail)
		fmt.Printf("FAIL go test: %v\n", waitErr)
	}
	if err := errors.Join(readErr, res.save(dir)); err != nil {
		return err
	}
	if res.failed() {
		return errFailed
	}
	return nil
}

func (r *result) failed() bool { return r.count(fail) > 0 }

// consume reads the events of a run to its end.
func consume(in io.Reader, res *result, out io.Writer) error {
	c := consumer{res: res, out: out, output: map[string][]string{}, count: map[string][4]int{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(out, "%s", line) // not an event: a message of the go command
			} else {
				c.take(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type consumer struct {
	res    *result
	out    io.Writer
	output map[string][]string // by test key: what it printed, until it is known whether anyone needs to read it
	count  map[string][4]int   // by package: tests by outcome
}

func (c *consumer) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(c.out, e.Output)
	case "output":
		c.output[key] = append(c.output[key], e.Output)
	case "pass", "fail", "skip":
		o := map[string]outcome{"pass": pass, "fail": fail, "skip": skip}[e.Action]
		if e.Test == "" {
			c.endPackage(e, o)
			return
		}
		c.res.set(key, o)
		n := c.count[e.Package]
		n[o]++
		c.count[e.Package] = n
		if o == fail {
			fmt.Fprint(c.out, strings.Join(c.output[key], ""))
		}
		delete(c.output, key)
	}
}

// endPackage prints a package's line. One that failed though no test did (a leak, a panic, a build error) counts as
// a failed test of its own.
func (c *consumer) endPackage(e event, o outcome) {
	n := c.count[e.Package]
	key := e.Package + " "
	if o == fail {
		for k, lines := range c.output { // tests that never ended, and the package's own words
			if strings.HasPrefix(k, key) {
				fmt.Fprint(c.out, strings.Join(lines, ""))
			}
		}
		if n[fail] == 0 {
			c.res.set(key+"(package)", fail)
		}
	}
	for k := range c.output {
		if strings.HasPrefix(k, key) {
			delete(c.output, k)
		}
	}
	short := strings.TrimPrefix(e.Package, module+"/")
	switch {
	case o == fail:
		fmt.Fprintf(c.out, "FAIL %s: %d passed, %d failed, %d skipped, %.1f s\n", short, n[pass], max(n[fail], 1), n[skip], e.Elapsed)
	case n != [4]int{}:
		fmt.Fprintf(c.out, "ok   %s: %d passed, %d skipped, %.1f s\n", short, n[pass], n[skip], e.Elapsed)
	}
}
