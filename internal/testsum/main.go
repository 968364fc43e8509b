// Testsum runs tests for the Makefile and adds up what came out: which failed and what they printed, how many passed, and
// every skip with its reason. A number that nobody sees is not kept: the last line is always
// "N passed, N failed, N skipped".
//
//	testsum run -name unit -- ./...             go test -json with these arguments; one line a package
//	testsum step -name check -- make check      any other command; one test, which passes when the command does
//	testsum vm -name vm -- integration/vm/run.sh   a command that runs tests in a virtual machine
//	testsum report -need unit,vm -max-skips 3   add up, print, judge
//
// Results are kept in -dir (build/test), one file a run, so that runs made by separate make targets add up. It needs no
// privileges, and is no part of the product.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// errFailed is the failure that has been printed already.
var errFailed = errors.New("tests failed")

func main() {
	err := run(os.Args[1:])
	if err != nil && !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: testsum run|step|vm|report [flags] [-- arguments]")
	}
	flags := flag.NewFlagSet("testsum "+args[0], flag.ContinueOnError)
	dir := flags.String("dir", "build/test", "where results are kept")
	name := flags.String("name", "", "name of this run")
	logs := flags.String("logs", "build/vm-logs", "vm: where the command leaves the log of each package")
	need := flags.String("need", "", "report: runs that must have been made, separated by commas")
	skips := flags.String("skips", "", "report: files of recorded skips, separated by commas (default: DIR/skips)")
	maxSkips := flags.Int("max-skips", -1, "report: fail when more tests were skipped")
	notRun := flags.String("not-run", "", "report: stages that this machine cannot run, and why")
	total := flags.String("total", "", "report: file for the last line, for whoever prints something after it")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o777); err != nil {
		return err
	}
	switch args[0] {
	case "run":
		return runGo(*dir, *name, flags.Args())
	case "step":
		return runStep(*dir, *name, flags.Args())
	case "vm":
		return runVM(*dir, *name, *logs, flags.Args())
	case "report":
		files := []string{*dir + "/skips"}
		if *skips != "" {
			files = strings.Split(*skips, ",")
		}
		return report(*dir, strings.Split(*need, ","), files, *maxSkips, *notRun, *total)
	}
	return fmt.Errorf("unknown command %q", args[0])
}
