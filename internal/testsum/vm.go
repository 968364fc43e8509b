package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const module = "github.com/tolbooth-dev/tolbooth"

var (
	countRule   = regexp.MustCompile(`^VM .*: (\d+) passed, (\d+) failed, (\d+) skipped`)
	packageRule = regexp.MustCompile(`^(?:\d+\| )?=== (\./\S+)$`) // guests that divide the packages have a number
	testRule    = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+)`)
)

// runVM runs a command that runs tests where go test cannot, and shows its output. It names each package in a line
// "=== ./package", leaves that package's verbose log in the directory logs, and ends with a line "VM …: N passed, N
// failed, N skipped". The tests are kept by name, so that one which this machine skips and the VM runs is not a skip.
func runVM(dir, name, logs string, args []string) error {
	if len(args) == 0 {
		return errors.New("vm: no command")
	}
	res := begin(name)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var packages []string
	counted, failures := 0, 0
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20) // a test may print one long line
	for lines.Scan() {
		fmt.Println(lines.Text())
		if m := packageRule.FindStringSubmatch(lines.Text()); m != nil {
			packages = append(packages, path.Clean(m[1]))
		}
		if m := countRule.FindStringSubmatch(lines.Text()); m != nil {
			counted = atoi(m[1]) + atoi(m[2]) + atoi(m[3])
			failures = atoi(m[2])
		}
	}
	waitErr := errors.Join(lines.Err(), cmd.Wait())
	for _, pkg := range packages {
		if err := readLog(filepath.Join(logs, strings.ReplaceAll(pkg, "/", "-")+".log"), pkg, &res); err != nil {
			waitErr = errors.Join(waitErr, err) // the guest was ended before it could keep its logs
		}
	}
	// What no test's line says: it broke off, a leak check failed, a log and the counts differ.
	if !res.failed() && (waitErr != nil || failures > 0 || len(res.Tests) < counted || counted == 0) {
		res.set(name+" (run)", fail)
		fmt.Printf("FAIL %v: %v; %d tests counted, %d in the logs\n", args, waitErr, counted, len(res.Tests))
	}
	if err := res.save(dir); err != nil {
		return err
	}
	if res.failed() {
		return errFailed
	}
	return nil
}

// readLog adds the tests in the verbose log of one package.
func readLog(file, pkg string, res *result) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if m := testRule.FindStringSubmatch(line); m != nil {
			res.set(module+"/"+pkg+" "+m[2], map[string]outcome{"PASS": pass, "FAIL": fail, "SKIP": skip}[m[1]])
		}
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
