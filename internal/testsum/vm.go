package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

var countRule = regexp.MustCompile(`^VM .*: (\d+) passed, (\d+) failed, (\d+) skipped`)

// runVM runs a command that runs tests where go test cannot, shows its output, and keeps the counts of its last
// matching line.
func runVM(dir, name string, args []string) error {
	if len(args) == 0 {
		return errors.New("vm: no command")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	res := result{Name: name, Tests: map[string]outcome{}}
	counted := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Println(lines.Text())
		if m := countRule.FindStringSubmatch(lines.Text()); m != nil {
			counted = true
			res.Passed, res.Failed, res.Skipped = atoi(m[1]), atoi(m[2]), atoi(m[3])
		}
	}
	if err := cmd.Wait(); (err != nil || !counted) && res.Failed == 0 {
		res.Failed = 1 // it broke off, or never said what it ran
		fmt.Printf("FAIL %v: %v, counted: %v\n", args, err, counted)
	}
	if err := res.save(dir); err != nil {
		return err
	}
	if res.failed() {
		return errFailed
	}
	return nil
}

// atoi is for digits that a regular expression has matched.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
