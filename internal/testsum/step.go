package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// runStep runs a command that is no test, and counts it as one: what it finds must neither hide what the tests after it
// find nor be missing in the total.
func runStep(dir, name string, args []string) error {
	if len(args) == 0 {
		return errors.New("step: no command")
	}
	res := begin(name)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	key := name + " " + strings.Join(args, " ")
	res.set(key, pass)
	if err := cmd.Run(); err != nil {
		res.set(key, fail)
		fmt.Printf("FAIL %s: %v\n", strings.Join(args, " "), err)
	}
	if err := res.save(dir); err != nil {
		return err
	}
	if res.failed() {
		return errFailed
	}
	return nil
}
